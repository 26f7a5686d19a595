"""Layers in PyTorch that are no examples of the library: what a user may bring."""
