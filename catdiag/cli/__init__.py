"""The command line: `catdiag derive`, `prove`, `check`, `io`, `draw`, `hardware`, `axioms`.

Each command imports what it needs when it runs: `check` uses the kernel and the solvers only, so that it works
where the prover, the rewrites and the builder are missing.

Exit status: 0 done or proved (a conditional theorem says so), 1 refuted or a certificate refused, 2 wrong use,
3 undecided or not derivable, 4 nothing fits, 5 vacuous: a theorem about nothing, 70 an internal error, which is no
verdict, 130 interrupted, 141 the reader of the output is gone (SIGPIPE).
"""

from __future__ import annotations


def main() -> None:
    """Runs the command line on the arguments of the process, and exits with its exit status."""
    ctrl_c = _CtrlC()
    try:
        ctrl_c.start()
        from catdiag.cli.standard_streams import own_streams

        with own_streams():
            from catdiag.cli.app import app

            app(prog_name="catdiag")
    except (KeyboardInterrupt, SystemExit) as end:
        import sys

        # Ctrl-C may come while modules are loaded or arguments are parsed, and then arrive here as a SystemExit.
        if not _by_ctrl_c(end):
            raise
        ctrl_c.stop()
        # Python counts a Ctrl-C that passed through `exec` of a string as unhandled, until the next `exec`.
        exec("")
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception:
        import sys
        import traceback

        ctrl_c.stop()
        # Where Ctrl-C ended the import of a module, what uses the module fails in some way of its own.
        if ctrl_c.pressed:
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        # By default Python would exit with 1, which means refuted.
        traceback.print_exc()
        sys.exit(70)
    finally:
        ctrl_c.stop()


def _by_ctrl_c(end: BaseException | None) -> bool:
    """Whether an exception is a KeyboardInterrupt, or was caused by one."""
    while end is not None and not isinstance(end, KeyboardInterrupt):
        end = end.__cause__ or end.__context__
    return end is not None


class _CtrlC:
    """Raises KeyboardInterrupt again until it is handled, and knows whether Ctrl-C was pressed.

    Python drops an exception that is raised in one of its own callbacks (at the end of an import, or when an object is
    finalized) and prints that it did. For Ctrl-C that message is suppressed, since it is raised again.
    """

    def __init__(self) -> None:
        self.pressed = False

    def start(self) -> None:
        """Handles Ctrl-C from now on, unless the process ignores it or has a handler of its own."""
        import signal
        import sys

        said = sys.unraisablehook

        def unraised(dropped: sys.UnraisableHookArgs) -> None:
            if not issubclass(dropped.exc_type, KeyboardInterrupt):
                said(dropped)

        def again(*_: object) -> None:
            if not _by_ctrl_c(sys.exc_info()[1]):
                raise KeyboardInterrupt

        def press(*_: object) -> None:
            self.pressed = True
            signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
            raise KeyboardInterrupt

        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and hasattr(signal, "setitimer"):
            sys.unraisablehook = unraised
            signal.signal(signal.SIGALRM, again)
            signal.signal(signal.SIGINT, press)

    def stop(self) -> None:
        """Raises nothing again."""
        import signal

        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
