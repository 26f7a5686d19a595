"""Programs written from diagrams: a nest of loops, printed as pseudocode or as plain NumPy."""
