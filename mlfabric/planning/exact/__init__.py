"""The exact optimum of small batches, by integer programs [paper, appendix]."""
