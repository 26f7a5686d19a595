"""The register of the library's names; what its diagrams mean is tested in `test_blocked.py`."""

import re
from collections.abc import Iterator

import pytest

import catdiag as cd
from catdiag import library
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import Box, bodies
from catdiag.util.errors import CatdiagError


@pytest.mark.parametrize("name", library.names())
def test_titles_names_and_descriptions(name: str) -> None:
    f = library.get(name)
    assert f.title == name and len(f.names) == len(f.dom)
    assert library.describe(name) and "\n    " not in library.describe(name)


def test_types() -> None:
    types = {
        "multi_head_attention": "[b h q d] @ [b h x d] @ [b h x d] → [b h q d]",
        "grouped_query_attention": "[b k r q d] @ [b k x d] @ [b k x d] → [b k r q d]",
    }
    for name, ty in types.items():
        assert str(library.get(name)) == f"{name}: {ty}"
        assert library.get(name).names == ("Q", "K", "V")


def test_an_unknown_name_is_answered_with_the_near_and_the_known() -> None:
    with pytest.raises(CatdiagError, match=re.escape("did you mean 'attention'? it has a")):
        library.get("atention")
    with pytest.raises(CatdiagError, match="no diagram 'zzz': it has"):
        library.describe("zzz")


def test_the_package_offers_the_library() -> None:
    assert cd.library.get("attention") == library.get("attention")


def _boxes(f: cd.category.Diagram) -> Iterator[Box]:
    for box in diagram_of(f).boxes:
        yield box
        for inner in bodies(box.op):
            yield from _boxes(inner)


@pytest.mark.parametrize("name", library.names())
def test_no_box_stands_on_a_line_of_what_asked_for_the_library_first(name: str) -> None:
    assert {box.line for box in _boxes(library.get(name))} == {None}


def test_a_mistake_is_at_the_line_that_makes_it() -> None:
    with pytest.raises(CatdiagError) as caught:
        library.get("attention").stream("d")
    assert (caught.value.line or "").startswith(__file__) and "(" + __file__ not in str(caught.value)
