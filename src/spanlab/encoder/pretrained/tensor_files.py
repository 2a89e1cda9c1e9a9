"""Tensor files in and out: safetensors, sharded safetensors, and foreign `.bin` files without running their pickle.

Compact weights are fp32 once they are read, so that nobody else need know of them. Nothing in a file is ever executed:
`.bin` and `.pt` files are read with `weights_only=True`. What is read takes no more memory than a few times the size of
the file.
"""

import os
import pickle
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from spanlab.atomic_io import follow_umask
from spanlab.encoder.pretrained.compact import FORMAT, is_compact, pack, unpack
from spanlab.errors import InputError, WeightsError
from spanlab.strict_parsing import read_json

SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")
INDEX_FILES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_MAX_SHARING = 4
"""How often the bytes of a torch file may be part of a tensor."""


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
    wrong = next((name for name, file in weight_map.items() if not isinstance(file, str)), None)
    if wrong is not None:
        cause = f"the index must name a file for '{wrong}', and says {weight_map[wrong]!r}"
        raise WeightsError(cause, path=index, fix="download it again")
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
    if not os.path.isfile(path):  # noqa: PTH113 (false, not an error, for a name that is too long)
        raise WeightsError("no such file", path=path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    loaded = read_torch_file(path)
    if not isinstance(loaded, dict) or not all(isinstance(item, str) for item in loaded):
        raise WeightsError("does not hold a mapping of tensors", path=path)
    check_dense(loaded, path)
    return loaded


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            file_format = (file.metadata() or {}).get("format")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"damaged or truncated ({error})", path=path, fix="download it again") from None
    return unpack(tensors, path) if is_compact(file_format, path) else tensors


def check_dense(tensors: Mapping[str, object], path: Path) -> None:
    """Raise where a torch file holds anything but plain tensors, or tensors that are larger than the file.

    Tied weights share their memory, so all together may be somewhat larger; a view that repeats a few numbers may not.
    """
    total = 0
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise WeightsError(f"does not hold a mapping of tensors: '{name}' is none", path=path)
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_complex() or tensor.is_meta:
            raise WeightsError(f"weight '{name}' is not a plain tensor of numbers", path=path)
        total += tensor.nbytes
    if total > _MAX_SHARING * path.stat().st_size:
        raise WeightsError(f"its tensors are {total / 1e6:,.0f} MB, more than the file can hold", path=path)


def read_torch_file(path: Path) -> object:
    """What a torch file holds, read without executing anything in it."""
    _check_not_compressed(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        cause = "holds objects other than tensors, which are never loaded"
        # torch's message goes on for a page; its first sentence names the class it refused.
        detail = next((line for line in str(error).splitlines() if "GLOBAL" in line), "")
        raise WeightsError(f"{cause} {detail}".strip(), path=path) from None
    except Exception as error:  # a damaged file makes torch's reader fail in any way
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise WeightsError(f"damaged or truncated ({reason})", path=path, fix="download it again") from None


def _check_not_compressed(path: Path) -> None:
    """Raise if the file is an archive that unpacks to more than itself; torch never writes one."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error):
        return  # of torch's older format, or damaged, which reading it will tell
    if size > 2 * path.stat().st_size:
        raise WeightsError(f"a compressed archive, which unpacks to {size / 1e6:,.0f} MB", path=path)


def write_file(path: Path, tensors: Mapping[str, Tensor], *, compact: bool = False) -> None:
    """One safetensors file, written atomically; matrices as int8 if asked for."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    tensors = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    try:
        # With one key of metadata a file always has the same bytes; safetensors writes several in random order.
        save_file(pack(tensors) if compact else tensors, partial, {"format": FORMAT if compact else "pt"})
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
