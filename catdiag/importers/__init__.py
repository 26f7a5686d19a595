"""Programs that people have already, as programs with named axes: PyTorch modules, JAX functions, ONNX models.

Each importer builds a diagram directly. What it does not know it refuses, all at once, by name and by the user's line.
"""
