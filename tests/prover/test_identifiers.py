"""Names in certificates: identifiers of ASCII, different for different names, and taken back to them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catdiag.kernel.terms import is_name
from catdiag.kernel.well_formed import is_title
from catdiag.prover.identifiers import identifier, name_of, title

_LETTERS = st.sampled_from("ab1_ ()+′x.αﬁ\0")
_NAMES = st.one_of(
    st.text(_LETTERS, min_size=1, max_size=8),
    st.text(st.sampled_from("_0axisbyplusnderpmt"), min_size=1, max_size=14),
    st.lists(st.text(st.sampled_from("ab_1"), min_size=1, max_size=3), min_size=2, max_size=3).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    st.sampled_from(["exp", "result", "result7", "name__exp", "a__by__b", "__plus__", "axis__1", "x__u3b1__"]),
)


@given(_NAMES)
def test_an_identifier_is_a_name_and_is_taken_back(name: str) -> None:
    assert is_name(identifier(name))
    assert name_of(identifier(name)) == name


@given(_NAMES)
def test_what_is_a_name_without_marks_stays(name: str) -> None:
    if is_name(name) and "__" not in name:
        assert identifier(name) == name


@given(_NAMES, st.text(max_size=6))
def test_titles_are_titles(name: str, axis: str) -> None:
    for text in (
        name,
        f"f.stream({axis!r})",
        f"f.stream('{axis}', passes=2).group('q x')",
        f"f.split({axis!r}, 'p_x')",
    ):
        assert is_title(title(text))
