"""Statistics and figures from recorded runs; knows files and frames, not how a run came about."""
