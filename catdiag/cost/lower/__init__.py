"""What lower bounds are read off, and rest on.

- `flow`: a diagram with loops and groups opened; `sources`: the cases that it has; `needed`: what moves once anyway;
- `segments`, `lifetimes`: certificates, and their checkers.
"""
