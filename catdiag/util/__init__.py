"""What every room may use: errors with the user's line, files, executors, time limits.

- `errors`: what can go wrong, with the line of the user's file; `argument_checks`: numbers and formulas that users
  give;
- `files`: files written whole or not at all; `executors`: many calls of one function, here or in workers;
- `time_limit`: a limit on the time of a piece of work; `display`: how objects are shown in notebooks;
- `lazy_names`: names of a package that are imported when they are first used.
"""
