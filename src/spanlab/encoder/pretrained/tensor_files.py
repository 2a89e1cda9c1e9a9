"""Tensor files in and out: safetensors, sharded safetensors, and foreign `.bin` files without running their pickle.

Nothing in a file is ever executed: `.bin` and `.pt` files are read with `weights_only=True`.
"""

import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from spanlab.atomic_io import follow_umask
from spanlab.errors import InputError, WeightsError
from spanlab.strict_parsing import read_json

SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")
INDEX_FILES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


def read_folder(folder: Path) -> dict[str, Tensor]:
    """All tensors of a model folder; safetensors files are preferred."""
    for single, index in zip(SINGLE_FILES, INDEX_FILES, strict=True):
        if (folder / single).is_file():
            return read_file(folder / single)
        if (folder / index).is_file():
            return _read_shards(folder / index)
    names = " or ".join(SINGLE_FILES)
    raise WeightsError("the folder holds no weights", path=folder, fix=f"it needs {names}")


def _read_shards(index: Path) -> dict[str, Tensor]:
    try:
        weight_map = read_json(index)["weight_map"]
        files = sorted(set(weight_map.values()))
    except (InputError, KeyError, TypeError, AttributeError):
        raise WeightsError("not a weight index", path=index, fix="download it again") from None
    tensors: dict[str, Tensor] = {}
    for file in files:
        if Path(file).name != file:
            raise WeightsError(f"the index names '{file}', outside the folder", path=index)
        tensors.update(read_file(index.parent / file))
    missing = sorted(set(weight_map) - set(tensors))
    if missing:
        raise WeightsError(f"the index names '{missing[0]}', which no shard holds", path=index)
    return tensors


def read_file(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, on the CPU."""
    if not path.is_file():
        raise WeightsError("no such file", path=path)
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise WeightsError(f"damaged or truncated ({error})", path=path, fix="download it again") from None
    loaded = read_torch_file(path)
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise WeightsError("does not hold a mapping of tensors", path=path)
    return loaded


def read_torch_file(path: Path) -> object:
    """What a torch file holds, read without executing anything in it."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        cause = "holds objects other than tensors, which are never loaded"
        # torch's message goes on for a page; its first sentence names the class it refused.
        detail = next((line for line in str(error).splitlines() if "GLOBAL" in line), "")
        raise WeightsError(f"{cause} {detail}".strip(), path=path) from None
    except (RuntimeError, EOFError, OSError, KeyError, ValueError) as error:
        reason = (str(error) or "empty file").splitlines()[0]  # the EOFError of an empty file has no message
        raise WeightsError(f"damaged or truncated ({reason})", path=path, fix="download it again") from None


def write_file(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """One safetensors file, written atomically."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file({name: tensor.detach().cpu() for name, tensor in tensors.items()}, partial, {"format": "pt"})
        follow_umask(partial)  # safetensors makes it readable for one user only
        partial.replace(path)
    except SafetensorError as error:
        # On a full disk safetensors raises its own error, with the system's error number in the message.
        code = re.search(r"\(os error (\d+)\)", str(error))
        if code is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
