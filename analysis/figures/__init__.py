"""One file per figure: each turns recorded runs into a picture and its numbers."""
