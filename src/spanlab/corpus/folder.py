"""The folder a corpus is written to: fresh, to be gone on with, or whole already."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spanlab.corpus.manifest import INPUTS, MANIFEST, TOKEN_COUNTS, TOKENIZER, WORK
from spanlab.errors import InputError

INDEX = "blocks"
"""Where block indices are kept; they can be made again at any time."""


def begin_folder(folder: Path, *, overwrite: bool) -> bool:
    """Make the folder ready for writing; True if it turns out to hold the finished corpus already.

    A run that was killed between its last two steps leaves a whole corpus and its working files: that is finished.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("a file is in the way", path=folder, fix="choose another --out")
    if overwrite:
        remove_corpus(folder)
    work = folder / WORK
    if (folder / MANIFEST).exists():
        if not work.exists():
            raise InputError(
                "the folder holds a prepared corpus already", path=folder, fix="replace it with --overwrite"
            )
        shutil.rmtree(work)
        return True
    if folder.exists() and not work.exists() and any(folder.iterdir()):
        raise InputError("the folder is not empty and holds no corpus", path=folder, fix="choose another --out")
    work.mkdir(parents=True, exist_ok=True)
    return False


def remove_corpus(folder: Path) -> None:
    """Remove what a preparation writes, and nothing else; the manifest first, so that no half corpus looks whole."""
    for name in (MANIFEST, TOKEN_COUNTS, INPUTS):
        (folder / name).unlink(missing_ok=True)
    for shard in folder.glob("shard-[0-9]*.bin*"):
        shard.unlink()
    for name in (TOKENIZER, WORK, INDEX):
        shutil.rmtree(folder / name, ignore_errors=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep a second preparation out of the folder while this one runs; a killed one's lock dies with it."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    with (folder / WORK / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("another preparation is writing to this folder", path=folder) from None
        yield
