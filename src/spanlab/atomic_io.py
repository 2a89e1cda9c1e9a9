"""Files and folders that exist completely or not at all, even after a kill or a power cut; checks of output folders."""

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from spanlab.errors import InputError

_PARTIAL = ".partial"
_STAGE = ".unfinished"


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` at the end; after an error nothing of it is left.

    Readers see the old content or the new, and the new survives a power cut. What is not a regular file, such as
    /dev/stdout or a pipe, is written directly.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    path = path.resolve() if path.is_symlink() else path
    partial = path.with_name(path.name + _PARTIAL)
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        rename(partial, path)
    except BaseException as error:
        with suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and str(error.filename) in {"None", str(partial)}:
            # A failed write does not say which file it was, and nobody knows the file by its temporary name.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old content or the new, and the new survives a power cut."""
    with open_atomically(path) as file:
        file.write(data)


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, whose files move to `target` at the end; after an error nothing of them is left.

    Other files in `target` stay. The folder is inside `target`, which may be a file system of its own.
    """
    created = [folder for folder in (target, *target.parents) if not folder.exists()]  # the deepest first
    stage = target / _STAGE
    try:
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        yield stage
        fsync_folder(stage)
        for path in sorted(stage.rglob("*")):
            place = target / path.relative_to(stage)
            if path.is_dir():
                place.mkdir(exist_ok=True)
            else:
                rename(path, place)
        created = []
    except OSError as error:
        named = str(target) if error.filename is None else str(error.filename).replace(f"{_STAGE}{os.sep}", "")
        raise OSError(error.errno, error.strerror, named) from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        for folder in created:
            with suppress(OSError):
                folder.rmdir()


def write_files(folder: Path, contents: Mapping[str, str]) -> None:
    """Write several text files, by their paths relative to `folder`, all of them or none."""
    with staged_folder(folder) as stage:
        for name, text in contents.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(stage / name, text.encode())


def rename(path: Path, target: Path) -> None:
    """Rename a file or folder; a power cut afterwards does not undo it."""
    path.replace(target)
    _fsync(target.parent)


def write_json(path: Path, mapping: Mapping[str, Any]) -> None:
    """Write one JSON object, indented."""
    write_atomically(path, (json.dumps(mapping, indent=2, ensure_ascii=False) + "\n").encode())


def follow_umask(path: Path) -> None:
    """Give a file that another library created, with permissions of its own choice, those of any new file beside it."""
    probe = path.with_name(f"{path.name}.mode")  # asking for the umask itself means changing it, for all threads
    with probe.open("wb") as file:
        mode = os.fstat(file.fileno()).st_mode
    probe.unlink()
    path.chmod(stat.S_IMODE(mode))


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_folder(folder: Path) -> None:
    """Wait until a folder and everything in it is on disk."""
    for path in (*folder.rglob("*"), folder):
        _fsync(path)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_folder(new: Path, target: Path) -> None:
    """Move the folder `new` to `target`; an existing `target` is removed afterwards.

    A kill between the two renames leaves the old folder as `.NAME.old`; `repair_folder` restores it.
    """
    old = _old_name(target)
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    rename(new, target)
    shutil.rmtree(old, ignore_errors=True)


def repair_folder(target: Path) -> None:
    """Finish or undo a `replace_folder` that was killed."""
    old = _old_name(target)
    if old.exists():
        if target.exists():
            shutil.rmtree(old)
        else:
            old.rename(target)


def _old_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def check_new_folder(folder: Path, *, overwrite: bool) -> None:
    """Raise where an output folder is not empty and may not be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise InputError("exists and is not a folder", path=folder, fix="choose another folder")
    if not overwrite and folder.exists() and any(path.name != _STAGE for path in folder.iterdir()):
        raise InputError("exists and is not empty", path=folder, fix="choose another folder, or use --overwrite")


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
def locked(path: Path, refusal: str | None) -> Iterator[None]:
    """Hold an exclusive lock, which ends with the process.

    Where another process holds it, `refusal` is raised; without one, this process waits.
    """
    with path.open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if refusal is not None else 0))
        except ImportError:  # no such locks on this system
            pass
        except OSError:
            raise InputError(refusal or "cannot be locked", path=path.parent) from None
        yield


def disk_problem(error: OSError) -> str | None:
    """What a disk that takes no more data is to be called; None for any other error."""
    return {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EFBIG: "the file is larger than this disk or account allows",
    }.get(error.errno or 0)


@contextmanager
def readable_disk_errors(folder: Path, fix: str) -> Iterator[None]:
    """Turn errors of a full disk or a wrong path into an `InputError`."""
    try:
        yield
    except OSError as error:
        if (problem := disk_problem(error)) is not None:
            raise InputError(problem, path=folder, fix=fix) from None
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
            raise InputError(str(error.strerror).lower(), path=error.filename) from None
        raise
