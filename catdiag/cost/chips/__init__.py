"""What chips are, and what they do with tiles.

- the TOML files of chips; `chipfile`: what may be in one; `units`: numbers as people write them;
- `timing`: predicted times; `turns`: which pipelines run at once; `pieces`: what tiles a chip wants;
- `request`, `search`, `report`, `planned`: what is asked of a plan, tried, reckoned, and shown;
- `proof`: that a tile fits; `capacity`: whether all tiles in ranges do, or none can.
"""
