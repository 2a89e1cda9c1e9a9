"""Compact weights: matrices as int8 with a scale for each row, a quarter of the size of fp32; all else as it is.

    NAME.int8    int8, the shape of the weight    round(weight / scale), from -127 to 127
    NAME.scale   fp32, one for each row           max |row| / 127

A scale has 17 significant bits, so that its product with a number of 7 bits is exact in fp32. What is restored gives
the same integers and scales again: packing, reading and packing leaves every byte as it was. Under its own name another
program would load the integers as if they were the weight; a name like `NAME.scale` is free, since a parameter has no
parts.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from spanlab.encoder.pretrained.checked_weights import check_finite
from spanlab.errors import WeightsError

FORMAT = "spanlab-int8-1"
"""The `format` in the metadata of a safetensors file with compact weights."""
_FAMILY = "spanlab-"
_INTEGERS, _SCALE = ".int8", ".scale"
_MIN_COLUMNS, _MIN_NUMBERS = 16, 4096
"""Smaller matrices, as well as vectors, are kept: there is nothing to gain."""
_LARGEST = 127
_TINIEST = _LARGEST * torch.finfo(torch.float32).tiny
"""Rows below have no scale of full precision, and become zero."""
_UNUSED_BITS = 0x7F
"""The last bits of an fp32 number, beyond 17 significant ones."""


def pack(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors for a file with the format `FORMAT`."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        check_finite(name, tensor, None)
        if _is_large_matrix(tensor):
            packed[name + _INTEGERS], packed[name + _SCALE] = _quantise(tensor.float())
        else:
            packed[name] = tensor.float() if tensor.is_floating_point() else tensor
    return packed


def _is_large_matrix(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.dim() < 2 or tensor.numel() < _MIN_NUMBERS:
        return False
    return tensor.numel() >= _MIN_COLUMNS * len(tensor)


def _quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The integers and the scales of a matrix; axes after the first count as columns."""
    rows = weight.flatten(1)
    largest = rows.abs().amax(1)
    scale = ((largest / _LARGEST).view(torch.int32) & ~_UNUSED_BITS).view(torch.float32)
    scale = scale.where(largest >= _TINIEST, 0.0)
    divisor = scale.where(scale > 0, torch.inf)
    integers = (rows / divisor[:, None]).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
    return integers.view(weight.shape), scale


def is_compact(file_format: str | None, path: Path) -> bool:
    """Whether the `format` in a file's metadata is ours; raises at one of a newer SpanLab."""
    if file_format is not None and file_format.startswith(_FAMILY) and file_format != FORMAT:
        cause = f"the weights have the format '{file_format}', which this SpanLab does not read"
        raise WeightsError(cause, path=path, fix="use a newer SpanLab")
    return file_format == FORMAT


def unpack(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The fp32 weights of a file with the format `FORMAT`; `path` is for errors."""
    unpacked: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        weight = name.removesuffix(_INTEGERS)
        if weight != name:
            if weight in tensors:
                raise _damage(f"weight '{weight}' is there twice", path)
            unpacked[weight] = _restore(weight, tensor, tensors.get(weight + _SCALE), path)
        elif name.endswith(_SCALE) and name.removesuffix(_SCALE) + _INTEGERS not in tensors:
            raise _damage(f"'{name}' is the scale of a weight that is not there", path)
        elif not name.endswith(_SCALE):
            unpacked[name] = tensor
    return unpacked


def _restore(name: str, integers: Tensor, scale: Tensor | None, path: Path) -> Tensor:
    """One weight from its integers and scales."""
    if scale is None:
        raise _damage(f"the scale of weight '{name}' is missing", path)
    if integers.dtype is not torch.int8 or scale.dtype is not torch.float32:
        types = " and ".join(str(tensor.dtype).removeprefix("torch.") for tensor in (integers, scale))
        raise _damage(f"weight '{name}' and its scale are of types {types}, which must be int8 and float32", path)
    if integers.dim() < 2 or scale.shape != integers.shape[:1]:
        shapes = f"{tuple(integers.shape)} and its scale {tuple(scale.shape)}"
        raise _damage(f"weight '{name}' has shape {shapes}; each row has one scale", path)
    if not bool((scale.isfinite() & (scale >= 0)).all()):
        raise _damage(f"the scale of weight '{name}' must be positive and finite", path)
    return integers * scale.view(-1, *[1] * (integers.dim() - 1))


def _damage(cause: str, path: Path) -> WeightsError:
    return WeightsError(cause, path=path, fix="restore the file, or write it again with spanlab convert --compact")
