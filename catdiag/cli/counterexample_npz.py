"""A counterexample as a `.npz` file, for NumPy.

Its arrays: each input by its name; `sizes.q` for each size; `value.left` and `value.right` at `index.q`, …
(`index.output` counts the outputs from 0); and `exact`, all of it as JSON with rationals as text, since `1/3` is not a
float. If the right program has no value, `value.right` is NaN and `undefined` says why. If an input has one of these
two names, the text is under `exact.text` or `undefined.text`.
"""

from __future__ import annotations

import io
import json
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catdiag.util.files import read_whole

if TYPE_CHECKING:
    from catdiag.prover.refute.counterexample_data import Counterexample

_LARGEST = 64 * 2**20
"""Bytes, packed or unpacked, above which a counterexample is not read."""
# What NumPy, zip, zlib and JSON raise for invalid files: an encrypted or unknown compression, a header that is not
# Python, a truncated file, texts nested too deeply.
_UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError, RuntimeError, zipfile.BadZipFile, zlib.error,
    MemoryError, tokenize.TokenError,
)  # fmt: skip


def npz(found: Counterexample) -> bytes:
    """The content of the file.

    >>> from catdiag.prover.refute.counterexample_data import Counterexample
    >>> import io, numpy
    >>> content = npz(Counterexample({"x": 2}, {"A": [1, 3]}, 4, 5, {}))
    >>> numpy.load(io.BytesIO(content))["A"]
    array([1., 3.])
    """
    import numpy as np

    from catdiag.prover.refute.counterexample_data import as_data

    arrays: dict[str, Any] = dict(found.numpy())
    arrays.update({f"sizes.{name}": np.array(value) for name, value in found.sizes.items()})
    arrays.update({f"index.{name}": np.array(value) for name, value in {**found.index, "output": found.output}.items()})
    arrays["value.left"] = np.array(float(found.lhs))
    arrays["value.right"] = np.array(np.nan if found.undefined else float(found.rhs))
    if found.undefined:
        arrays["undefined.text" if "undefined" in arrays else "undefined"] = np.array(found.reason)
    text = np.array(json.dumps(as_data(found), ensure_ascii=False))
    arrays["exact.text" if "exact" in arrays else "exact"] = text
    # not `np.savez`: inputs with the names of its parameters would be lost
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()


def read(path: Path) -> Counterexample:
    """The counterexample in a file that `npz` made, without its two values. Raises NotACounterexample for another
    file."""
    import numpy as np

    from catdiag.prover.refute.counterexample_data import NotACounterexample, of_data

    try:
        content = read_whole(path, _LARGEST)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _LARGEST:
                raise NotACounterexample(f"the counterexample {path} unpacks to more than {_LARGEST} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            found = of_data(json.loads(str(file["exact.text" if "exact.text" in file else "exact"])))
            for name, array in found.numpy().items():
                if name not in file or not np.array_equal(file[name], array):
                    raise NotACounterexample(f"array {name} of {path} differs from its exact numbers")
            return found
    except _UNREADABLE as error:
        raise NotACounterexample(f"cannot read the counterexample {path}: {error}") from error
