"""Tensors of a file into a module: each is there, has the expected shape, and holds numbers.

Config and weights may come from anywhere, and need not belong together. A module is therefore first laid out on torch's
meta device, which takes no memory, and compared with the tensors. It is built only if every weight has its tensor, so
its size is that of the file, whatever the config says.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from spanlab.errors import WeightsError

Module = TypeVar("Module", bound=nn.Module)

_MAX_COMPUTED_BYTES = 1 << 28
"""For tables that a module computes, such as sinusoids, beside as much as its weights take."""
_MAX_FLOAT = torch.finfo(torch.float32).max


def build_with_weights(
    build: Callable[[], Module], state: Mapping[str, Tensor], path: Path | None, *, part: str = ""
) -> Module:
    """The module that `build` makes, with the weights of `state`; others in `state` are ignored.

    Args:
        build: called twice, first for a layout without memory.
        state: tensors by their names in the module.
        path: of the folder or file, for errors.
        part: a prefix of the names in errors.
    """
    check_fit(lay_out(build, path), state, path, part=part)
    module = build()
    module.load_state_dict({name: state[name] for name in module.state_dict()})
    return module


class _WithoutInit(TorchFunctionMode):
    """Random initialisation does nothing: without memory it means nothing, and torch takes seconds to prepare it."""

    @override
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if getattr(func, "__name__", "") in {"normal_", "uniform_", "kaiming_uniform_", "trunc_normal_"}:
            return args[0] if args else options["tensor"]
        return func(*args, **options)


def lay_out(build: Callable[[], Module], path: Path | None) -> Module:
    """The module on the meta device: shapes without memory."""
    try:
        with torch.device("meta"), _WithoutInit():
            return build()
    except (RuntimeError, OverflowError, MemoryError):  # a number of elements that no machine could count
        raise WeightsError("the config asks for tensors larger than any machine can hold", path=path) from None


def check_fit(layout: nn.Module, state: Mapping[str, Tensor], path: Path | None, *, part: str = "") -> None:
    """Raise where a weight of `layout` is missing in `state`, has another shape or type, or is not finite."""
    expected_state = layout.state_dict()
    check_missing([part + name for name in expected_state if name not in state], path)
    for name, expected in expected_state.items():
        tensor = state[name]
        if tensor.shape != expected.shape:
            shapes = f"{tuple(tensor.shape)}, but the config says {tuple(expected.shape)}"
            raise WeightsError(f"weight '{part}{name}' has shape {shapes}", path=path)
        if tensor.is_floating_point() != expected.is_floating_point():
            types = f"{_type_name(tensor)}, and the model computes with {_type_name(expected)}"
            raise WeightsError(f"weight '{part}{name}' is of type {types}", path=path, fix="use weights as trained")
        check_finite(part + name, tensor, path)
    computed = sum(buffer.nbytes for name, buffer in layout.named_buffers() if name not in expected_state)
    if computed > _MAX_COMPUTED_BYTES + sum(tensor.nbytes for tensor in expected_state.values()):
        cause = f"the config asks for tables of {computed / 1e9:,.1f} GB beside the weights"
        raise WeightsError(cause, path=path, fix="correct max_positions")


def check_missing(missing: list[str], path: Path | None) -> None:
    """Raise if any weight is missing."""
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise WeightsError(f"missing weights: {', '.join(missing[:3])}{more}", path=path)


def check_blocks(blocks: int, names: Iterable[str], path: Path | None) -> None:
    """Raise if a file with these tensors cannot hold so many blocks: each has a tensor of its own."""
    count = len(list(names))
    if blocks > count:
        cause = f"the config asks for {blocks:,} layers with weights of their own, and the file has {count:,} tensors"
        raise WeightsError(cause, path=path, fix="correct the number of layers in config.json")


def check_finite(name: str, tensor: Tensor, path: Path | None) -> None:
    """Raise where a weight holds NaN, infinity, or what becomes infinite in 32 bits."""
    if tensor.is_floating_point() and not _is_finite(tensor):
        cause = f"weight '{name}' is not finite: it holds NaN or infinity"
        raise WeightsError(cause, path=path, fix="use a model of before its training diverged, or download it again")


def _is_finite(tensor: Tensor) -> bool:
    """A sum costs one pass and no memory; only where it is not finite, which huge numbers may do, each is looked at."""
    if tensor.itemsize < 2:  # there is no arithmetic with 8 bits
        tensor = tensor.float()
    if bool(tensor.sum(dtype=torch.float32).isfinite()):
        return True
    return tensor.numel() == 0 or float(tensor.abs().max()) <= _MAX_FLOAT


def _type_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
