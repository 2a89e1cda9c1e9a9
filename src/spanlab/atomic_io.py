"""Files and folders that are there whole or not at all: what a kill, a power cut or a full disk leaves is usable."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spanlab.errors import InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that whoever looks sees the old content or the new, and the new survives a power cut."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    rename(partial, path)


def rename(path: Path, place: Path) -> None:
    """Give a file or folder its name for good: a power cut afterwards does not undo it."""
    path.replace(place)
    _to_disk(place.parent)


def write_json(path: Path, mapping: Mapping[str, Any]) -> None:
    """One JSON object in a file, for programs and people."""
    write_atomically(path, (json.dumps(mapping, indent=2, ensure_ascii=False) + "\n").encode())


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_disk(folder: Path) -> None:
    """Wait until everything in a folder, its own entries included, is on the disk."""
    for path in (*folder.rglob("*"), folder):
        _to_disk(path)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_folder(new: Path, place: Path) -> None:
    """Move the folder `new` to `place`; what was there is removed once the new one stands.

    A kill between the two renames leaves the old folder beside as `.NAME.old`; `mend_folder` puts it back.
    """
    old = _old_name(place)
    if place.exists():
        shutil.rmtree(old, ignore_errors=True)
        place.rename(old)
    rename(new, place)
    shutil.rmtree(old, ignore_errors=True)


def mend_folder(place: Path) -> None:
    """Finish or undo a `put_folder` that was killed half way."""
    old = _old_name(place)
    if old.exists():
        if place.exists():
            shutil.rmtree(old)
        else:
            old.rename(place)


def _old_name(place: Path) -> Path:
    return place.with_name(f".{place.name}.old")


def has_output(folder: Path, marker: str, name: str, *, ignored: Callable[[Path], bool] = lambda path: False) -> bool:
    """Whether an output folder contains an earlier output, identified by its file `marker`.

    Raises if the path is a file or the folder contains anything else, which must not be overwritten.

    Args:
        folder: the output folder, which need not exist.
        marker: the file that identifies the output.
        name: what the output is called in messages, such as "run".
        ignored: paths in the folder that do not count.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("exists and is not a folder", path=folder, fix="choose another --out")
    if (folder / marker).is_file():
        return True
    if folder.exists() and not all(map(ignored, folder.iterdir())):
        raise InputError(f"the folder is not empty and is not a {name}", path=folder, fix="choose another --out")
    return False


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Keep every other process that asks for the same lock out for the while; the lock of a killed one dies with it."""
    with path.open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # a system without such locks
            pass
        except OSError:
            raise InputError(refusal, path=path.parent) from None
        yield


@contextmanager
def readable_disk_errors(folder: Path, fix: str) -> Iterator[None]:
    """Turn a full disk or an unusable path into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise InputError("the disk is full", path=folder, fix=fix) from None
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
            raise InputError(str(error.strerror).lower(), path=error.filename) from None
        raise
