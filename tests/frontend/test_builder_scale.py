"""Building takes work in proportion, needs no recursion, and the package is imported quickly."""

import subprocess
import sys

import catdiag as cd


def test_a_hundred_thousand_boxes_are_built_one_by_one(calls) -> None:
    def build(n: int) -> None:
        def program(a):
            b = a
            for _ in range(n // 2):
                b = b * a + 1
            return b

        assert len(cd.algorithm("q")(program)) == n + 1

    build(100_000)
    once, twice = (calls(lambda: build(n)) for n in (5_000, 10_000))  # noqa: B023
    assert twice < 2.1 * once and twice < 100 * 10_000


def test_a_long_program_runs() -> None:
    def program(a):
        b = a
        for _ in range(5000):
            b = b * a + 1
        return b

    assert abs(float(cd.algorithm("")(program)(0.5)) - 2) < 1e-12


def test_import_is_light() -> None:
    code = (
        "import catdiag, catdiag.frontend.builder, sys\n"
        "heavy = {'numpy', 'sympy', 'z3', 'hypothesis', 'typer'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:

    for name in cd.__all__:
        assert getattr(cd, name) is not None
    assert callable(cd.prove) and set(cd.__all__) <= set(dir(cd))
