"""A counterexample as a `.npz` file, for NumPy.

Its arrays: each input by its name; `sizes.q` for each size; `value.left` and `value.right` at `index.q`, …
(`index.output` counts the outputs from 0); and `exact`, all of it as JSON with rationals as text, since `1/3` is no
float.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catdiag.prove.refute import Counterexample


def npz(found: Counterexample) -> bytes:
    """The content of the file.

    >>> from catdiag.prove.refute import Counterexample
    >>> import io, numpy
    >>> content = npz(Counterexample({"x": 2}, {"A": [1, 3]}, 4, 5, {}))
    >>> numpy.load(io.BytesIO(content))["A"]
    array([1., 3.])
    """
    import numpy as np

    arrays: dict[str, Any] = dict(found.numpy())
    arrays.update({f"sizes.{name}": np.array(value) for name, value in found.sizes.items()})
    arrays.update({f"index.{name}": np.array(value) for name, value in {**found.index, "output": found.output}.items()})
    arrays["value.left"], arrays["value.right"] = np.array(float(found.lhs)), np.array(float(found.rhs))
    exact = {name: getattr(found, name) for name in ("sizes", "arrays", "index", "output", "blocks", "functions")}
    exact.update({"left": found.lhs, "right": found.rhs})
    arrays.setdefault("exact", np.array(json.dumps(exact, default=str, ensure_ascii=False)))
    # Not `np.savez`, whose own parameters would take the place of inputs of the same names.
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()
