"""A kernel on warpgroups, registers and matrix units.

- `column_reader`: its arrays by level and type, in `columns`; `configuration`: how many warpgroups fit, and what a turn
  takes them; `schedule`: when they use what.
"""
