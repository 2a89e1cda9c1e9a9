"""A folder of labelled files: one for each split and format.

Everything is made before anything is written, so that a refusal leaves the folder as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spanlab.errors import InputError
from spanlab.samples.exports.tasks import check_known, files_of
from spanlab.samples.passage import LANGUAGES, SPLITS, Passage


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which passages, in which format; what is not given is not narrowed down."""

    split: str | None = None
    language: str | None = None
    format: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """A file that was written, and how many examples it holds."""

    path: Path
    format: str
    split: str
    examples: int


def export(
    passages: Sequence[Passage], task: str, out: Path, selection: Selection, *, overwrite: bool = False
) -> tuple[ExportedFile, ...]:
    """Write the examples of a task to `out`; a split that has none gets no file."""
    if not overwrite and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("is there already and is not empty", path=out, fix="choose another --out, or --overwrite")
    made = _make(passages, task, out, selection)
    if not made:
        raise InputError(
            f"no passage has an example of {task} in this selection", fix="choose another split or language"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file, text in made.items():
            file.path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", path=out, fix="choose another --out") from error
    return tuple(made)


def _make(passages: Sequence[Passage], task: str, out: Path, selection: Selection) -> dict[ExportedFile, str]:
    files = files_of(task, label=selection.label)
    for what, name, known in (
        ("split", selection.split, SPLITS),
        ("language", selection.language, LANGUAGES),
        (f"format of {task}", selection.format, tuple(files.formats)),
    ):
        if name is not None:
            check_known(what, name, known)
    names = tuple(files.formats) if selection.format is None else (selection.format,)
    made = {}
    for split in SPLITS if selection.split is None else (selection.split,):
        chosen = [p for p in passages if p.split == split and selection.language in {None, p.language}]
        examples = len(files.examples(chosen))
        for name in names if examples else ():
            format_ = files.formats[name]
            path = out / f"{split}.{format_.extension}"
            made[ExportedFile(path=path, format=name, split=split, examples=examples)] = format_.write(chosen)
    return made
