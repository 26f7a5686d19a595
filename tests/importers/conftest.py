"""What the importers' tests share."""

from __future__ import annotations

from tests.importers.inputs import jax_in_double as jax_in_double
