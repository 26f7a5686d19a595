"""What binds at sizes, found numerically, against the formulas; and the regimes that only `at` works out."""

from __future__ import annotations

import catdiag as cd
from catdiag.optimum.active_sets import options_of
from catdiag.optimum.optimality_certificate import BOUND, FREE, check_stationary, coordinates_of, ranges
from catdiag.optimum.regimes import Regimes, regimes
from catdiag.optimum.screening import ScreeningSample


def test_what_binds_is_where_the_certificate_says():
    program = cd.library.get("matmul").group("a c").io().optimum().program
    assert program is not None
    found = regimes(program)
    monomials = coordinates_of(program)
    ends = ranges(program, monomials)
    options = [options_of(program, monomials, i, end) for i, end in enumerate(ends)]
    wanted = {4000: (FREE, FREE), 10**7: (BOUND, BOUND)}
    for capacity, held in wanted.items():
        sizes = dict.fromkeys(program.symbols, 100.0)
        sizes |= {s: float(capacity) for _, c in program.memory for s in c.free_symbols}
        sizes |= {s: 1.0 for s in program.symbols if str(s).startswith("s_")}
        ((binds,), regime) = ScreeningSample(program, sizes).binding(monomials, ends, options), found.at(sizes)
        assert binds is not None and regime is not None and regime.certificate is not None
        assert binds[0] == held == tuple(c.status for c in regime.certificate.coordinates)
        assert binds[1] == regime.certificate.full


def test_a_choice_that_was_left_is_certified_at_sizes():
    program = cd.library.get("matmul").stream("b").group("a c").io().optimum().program
    assert program is not None
    found = regimes(program)
    certificates = [r.certificate for r in found if r.certificate]
    left = tuple((tuple(c.status for c in point.coordinates), point.full) for point in certificates)
    none = Regimes((), False, ("too much work",), program, left)
    for capacity in (400, 3000, 10**6):
        sizes = {s: 1 if str(s).startswith("s_") else 50 for s in program.symbols}
        sizes |= {c: capacity for _, c in program.memory}
        regime = none.at(sizes)
        assert regime is not None and regime == found.at(sizes)
        assert regime.certificate is not None and check_stationary(regime.certificate) == regime.conditions
    assert none.at({**sizes, program.memory[0][1]: 1}) is None


def test_work_is_bounded_and_said():
    # Several branches of memory and three tiles: more regimes than are worked out.
    found = cd.library.get("multi_head_latent_attention").group("q h v").io().optimum().regimes
    assert not found.covers
    assert any("not worked out" in choice for choice in found.open)
