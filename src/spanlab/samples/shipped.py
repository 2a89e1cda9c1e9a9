"""The passages that come with the package."""

from functools import cache
from importlib import resources

from spanlab.errors import InputError, did_you_mean
from spanlab.samples.parse import parse
from spanlab.samples.passage import Passage


@cache
def load() -> tuple[Passage, ...]:
    """All shipped passages, by file and then in the order of the file."""
    passages: dict[str, Passage] = {}
    folder = resources.files("spanlab.samples") / "passages"
    for file in sorted((file for file in folder.iterdir() if file.name.endswith(".txt")), key=lambda file: file.name):
        for passage in parse(file.read_text(encoding="utf-8"), file.name):
            if passage.id in passages:
                cause = f"passage '{passage.id}' is also in another file"
                raise InputError(cause, path=file.name, line=passage.line, fix="give each its own number")
            passages[passage.id] = passage
    return tuple(passages.values())


def find(name: str) -> Passage:
    """The shipped passage with this id."""
    passages = {passage.id: passage for passage in load()}
    if name not in passages:
        cause = f"no passage '{name}' in the almanac{did_you_mean(name, passages)}"
        raise InputError(cause, fix="see all with 'spanlab almanac show'")
    return passages[name]
