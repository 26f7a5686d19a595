"""`python -m catdiag`: the command line without its script."""

from catdiag.cli import main

main()
