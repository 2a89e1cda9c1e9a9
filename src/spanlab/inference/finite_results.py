"""Results are finite, or there is none: an input on which a model's activations overflow is an error that names it.

Weights are checked when a model is loaded. Finite weights can still be so large that a product of them is not: the
hidden states turn into NaN, and so would every score after them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from spanlab.errors import InputError
from spanlab.tasks.formats.row import Row
from spanlab.tasks.sample import Sample

_CAUSE = "the model's numbers overflow on this input: its weights are too large to compute with"
_FIX = "use a model of before its training diverged, or precision fp32"


def overflow(where: str) -> InputError:
    """The error for an input, named by `where`."""
    return InputError(_CAUSE, path=where, fix=_FIX)


def check_outputs(rows: Sequence[Row], samples: Sequence[Sample], outputs: Sequence[Any]) -> None:
    """Raise where the output of a sample holds NaN or infinity; `rows` are those of the samples' examples."""
    for sample, output in zip(samples, outputs, strict=True):
        if not _is_number(output, masked=True):
            raise rows[sample.example].error(_CAUSE, _FIX)


def check_results(rows: Sequence[Row], results: Sequence[Any]) -> None:
    """Raise where a result holds NaN or infinity."""
    for row, result in zip(rows, results, strict=True):
        if not _is_number(result, masked=False):
            raise row.error(_CAUSE, _FIX)


def check_rows(values: np.ndarray, first: int = 0) -> None:
    """Raise where a row of a matrix, a text's vector, is not finite."""
    finite = np.isfinite(values).all(axis=-1)
    if not finite.all():
        raise overflow(f"text {first + int(np.argmin(finite))}")


def _is_number(value: Any, *, masked: bool) -> bool:  # noqa: ANN401 (whatever a head or a task returns)
    """Whether no number in a value is NaN or infinite; `masked`: minus infinity stands for what cannot be."""
    if isinstance(value, float):
        return math.isfinite(value) or (masked and value == -math.inf)
    if hasattr(value, "detach"):  # a tensor; a model without torch has none
        value = value.detach().float().cpu().numpy()
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "f":
            return True
        return not (np.isnan(value) | (value == np.inf) if masked else ~np.isfinite(value)).any()
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, tuple | list):
        parts = value
    elif is_dataclass(value):
        parts = (getattr(value, field.name) for field in fields(value))
    return all(_is_number(part, masked=masked) for part in parts)
