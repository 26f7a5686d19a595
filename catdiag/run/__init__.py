"""Running diagrams: `numpy` on arrays in real blocks, `machine` on memories that are counted."""
