"""Chips: their numbers with sources, as TOML files and as objects.

- `hardware`: a chip and its numbers; `toml_file`: the format of a chip's file, reader and writer;
- `hierarchy`: the memory hierarchy as a graph of levels and edges; `units`: numbers with units.
"""
