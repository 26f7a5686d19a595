"""The command line: `catdiag derive`, `prove`, `check`, `io`, `hardware`, `axioms`.

Each command imports what it needs when it runs: `check` uses the kernel and the solvers only, so that it works
where the prover, the rewrites and the builder are missing.

Exit status: 0 done or proved (a conditional theorem says so), 1 refuted or a certificate refused, 2 wrong use,
3 undecided or not derivable, 4 nothing fits, 130 interrupted.
"""

from __future__ import annotations


def main() -> None:
    """Runs the command line on the arguments of the process, and ends it with the exit status."""
    try:
        from catdiag.cli.app import app

        app(prog_name="catdiag")
    except (KeyboardInterrupt, SystemExit) as end:
        import sys

        # Ctrl-C may come while modules are loaded or arguments read, and reach us in the guise of an exit.
        cause: BaseException | None = end
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        print("interrupted", file=sys.stderr)
        sys.exit(130)
