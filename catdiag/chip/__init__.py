"""What chips are: numbers with their sources, as TOML files and as objects.

- `hardware`: a chip and its numbers; `toml_file`: what may be in a file, read and written;
- `hierarchy`: memories as a graph of levels and edges; `units`: numbers with units, as people write them.
"""
