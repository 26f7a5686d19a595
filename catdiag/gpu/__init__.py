"""Kernels on a GPU: generated modules imported, compiled, registered with torch, and what their binaries take."""
