"""A part of the package that was loaded from another folder is not taken for the user's."""

from __future__ import annotations

import types

import pytest

import catdiag as cd


def test_a_module_of_the_package_is_known_by_its_name_too() -> None:
    source = "def fail(error):\n    raise error('no')\n"
    part = types.ModuleType("catdiag.part")
    exec(compile(source, "/elsewhere/catdiag/part.py", "exec"), vars(part))
    with pytest.raises(cd.errors.CatdiagError) as caught:
        part.fail(cd.errors.CatdiagError)
    assert caught.value.line is not None and caught.value.line.startswith(__file__)
