"""Block indices on disk: made once for a corpus, kind and length, then mapped into memory.

An index lies in the corpus folder under a name that holds the fingerprint of the manifest, so that one made for
another corpus is never taken for this one's. Where the folder cannot be written to, the index stays in memory.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spanlab.corpus.corpus import PreparedCorpus
from spanlab.corpus.manifest import MANIFEST
from spanlab.corpus.prepare.folder import INDEX

Index = TypeVar("Index", bound=NDArray[np.generic])


def kept_index(corpus: PreparedCorpus, name: str, make: Callable[[], Index]) -> Index:
    """The array that `make` returns, from disk if it was made before."""
    fingerprint = hashlib.sha256((corpus.folder / MANIFEST).read_bytes()).hexdigest()[:16]
    path = corpus.folder / INDEX / f"{name}-{fingerprint}.npy"
    try:
        return _mapped(path)
    except (OSError, ValueError):  # not there, or cut by a full disk: it is made again
        index = make()
    try:
        _write(path, index)
    except OSError:  # a read-only or full disk
        return index
    return _mapped(path)


def _mapped(path: Path) -> Index:  # type: ignore[type-var]
    array: Index = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return array


def _write(path: Path, index: Index) -> None:
    """Several processes may make the same index at once: each writes its own file, and the last rename stays."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.save(file, index, allow_pickle=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
