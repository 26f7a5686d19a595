"""`python -m catdiag.testing`: the distribution of the strategies' draws; `--examples 1000`, and a strategy's name."""

from __future__ import annotations

import argparse
import sys

from catdiag.util.errors import CatdiagError


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables; returns the exit status, 2 for wrong use."""
    from catdiag.testing.strategies.distribution import tables

    parser = argparse.ArgumentParser(prog="python -m catdiag.testing", description="The distribution of draws.")
    parser.add_argument("strategy", nargs="?", help="the name of one strategy; all of them if left out")
    parser.add_argument("--examples", type=int, default=200, help="how many to draw of each")
    given = parser.parse_args(arguments)
    if given.examples < 1:
        print(f"--examples is {given.examples}: expected a number of at least 1", file=sys.stderr)
        return 2
    try:
        for text in tables(given.examples, given.strategy):
            print(text, end="\n\n")
    except CatdiagError as error:
        print(error.message, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
