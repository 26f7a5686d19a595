"""Building is linear and quick, needs no recursion, and the package is imported quickly."""

import subprocess
import sys
import time

import catdiag as cd


def seconds(n: int) -> float:
    def program(a):
        b = a
        for _ in range(n // 2):
            b = b * a + 1
        return b

    start = time.process_time()
    f = cd.algorithm("q")(program)
    assert len(f) == n + 1
    return time.process_time() - start


def test_a_hundred_thousand_boxes_in_about_a_second() -> None:
    assert min(seconds(100_000) for _ in range(2)) < 2.5


def test_a_long_program_runs() -> None:
    def program(a):
        b = a
        for _ in range(5000):
            b = b * a + 1
        return b

    assert abs(float(cd.algorithm("")(program)(0.5)) - 2) < 1e-12


def test_import_is_light() -> None:
    code = (
        "import catdiag, catdiag.build, sys\n"
        "heavy = {'numpy', 'sympy', 'z3', 'hypothesis', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:

    for name in cd.__all__:
        assert getattr(cd, name) is not None
    assert callable(cd.prove) and set(cd.__all__) <= set(dir(cd))
