"""Public architectures with random weights: which of them are imported, run equal, planned, proved and compiled."""
