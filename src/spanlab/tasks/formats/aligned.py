"""Aligned files, as translation has them: line n of the second is the target of line n of the first.

They are named together, with a comma, `train.en,train.de`, wherever one labelled file is named.
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import STDIN, read_lines
from spanlab.tasks.formats.row import Row


def files_of(path: str) -> tuple[str, ...]:
    """The files that a name stands for: itself, or those of an aligned pair; a file whose name has a comma is one."""
    parts = tuple(path.split(","))
    return parts if path != STDIN and len(parts) == 2 and all(parts) and not Path(path).exists() else (path,)


def short_name(path: str) -> str:
    """The name of a file, or of both, without folders."""
    return ",".join(Path(name).name for name in files_of(path))


def read_aligned(path: str) -> Iterator[Row | InputError]:
    """A row for each pair of lines."""
    source_path, target_path = files_of(path)
    # A pair that is shifted by a line is wrong in every row, so the lines are counted before any is used.
    counts = [sum(1 for _ in read_lines(name)) for name in (source_path, target_path)]
    if counts[0] != counts[1]:
        (shorter, fewer), (longer, more) = sorted(zip((source_path, target_path), counts, strict=True), key=_count)
        cause = f"has no line in {shorter}, which has {fewer} of {more} lines"
        raise InputError(cause, path=longer, line=fewer + 1, fix="line n of both files must belong together")
    for (number, source), (_, target) in zip_longest(read_lines(source_path), read_lines(target_path)):
        problem = next((line for line in (source, target) if isinstance(line, InputError)), None)
        yield problem or Row(values={"source": source, "target": target}, path=source_path, line=number)


def _count(item: tuple[str, int]) -> int:
    return item[1]
