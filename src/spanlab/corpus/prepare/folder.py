"""The folder a corpus is written to: fresh, to be gone on with, or whole already."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spanlab.atomic_io import has_output, locked
from spanlab.corpus.manifest import INPUTS, MANIFEST, TOKEN_COUNTS, TOKENIZER, WORK
from spanlab.errors import InputError

INDEX = "blocks"
"""Where block indices are kept; they can be made again at any time."""
_LOCK = "lock"


def check_folder(folder: Path, inputs: Iterable[str], *, overwrite: bool) -> None:
    """Refuse a folder that may not be written to, without touching it."""
    for name in inputs:
        if Path(name).is_dir() and folder.resolve().is_relative_to(Path(name).resolve()):
            raise InputError(f"the folder lies inside the input {name}", path=folder, fix="choose another --out")
    if (folder / WORK).exists():
        return
    if has_output(folder, MANIFEST, "corpus") and not overwrite:
        raise InputError("the folder contains a prepared corpus", path=folder, fix="use --overwrite to replace it")


@contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    """Make the folder with its place for working files, and keep a second preparation out of it for the while.

    The lock of a killed preparation dies with it; the working files stay.
    """
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    with locked(folder / WORK / _LOCK, "another preparation is writing to this folder"):
        yield


def remove_corpus(folder: Path) -> None:
    """Remove what a preparation writes, and nothing else; the manifest first, so that no half corpus looks whole."""
    for name in (MANIFEST, TOKEN_COUNTS, INPUTS):
        (folder / name).unlink(missing_ok=True)
    for path in (*folder.glob("shard-[0-9]*.bin*"), *(folder / WORK).iterdir()):
        if path.name != _LOCK:
            path.unlink()
    for name in (TOKENIZER, INDEX):
        shutil.rmtree(folder / name, ignore_errors=True)


def remove_work(folder: Path) -> None:
    """Remove the working files: the corpus is whole, or nothing came of it."""
    shutil.rmtree(folder / WORK)
