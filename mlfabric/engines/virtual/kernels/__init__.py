"""Inner loops of the flow-level network, compiled.

After a change those flows are picked that it may affect; they are brought up to date, their rates
are computed anew with all others as they are, and links that become full by that pick more.
"""
