"""`python -m examples.napkin`: the paper's tables beside what is derived."""

from examples.napkin.tables import main

main()
