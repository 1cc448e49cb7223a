"""Pure functions on values: what goes first, what is dropped, where sums are made."""
