"""Entities and relations by words, as SciERC is often given: one JSON list of sentences.

    [{"tokens": […], "entities": [{"type", "start", "end"}], "relations": [{"type", "head", "tail"}], "orig_id": …}, …]

`start` and `end` (exclusive) count words, `head` and `tail` entities. Words are joined by a space; what leaves counts
characters. Sentences are taken from the text one by one, so that each has the line it begins in and a fault costs no
more than the sentence it stands in.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.lines import read_text
from spanlab.tasks.formats.row import Row

_FIX = 'a sentence is {"tokens": […], "entities": [{"type", "start", "end"}], "relations": [{"type", "head", "tail"}]}'


def is_word_relations(line: str) -> bool:
    """Whether a file that begins with this line is of this format."""
    return line.lstrip().startswith("[")


def read_word_relations(path: str) -> Iterator[Row | InputError]:
    """One row a sentence: id, text, words, entities and relations."""
    text = read_text(path)
    decoder, place, line = json.JSONDecoder(), text.index("[") + 1, 1
    counted = 0
    while True:
        while place < len(text) and (text[place].isspace() or text[place] == ","):
            place += 1
        line += text.count("\n", counted, place)
        counted = place
        if text[place : place + 1] == "]":
            return
        try:
            values, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
            cause = "the file is cut short" if cut else f"not valid JSON: {error.msg}"
            raise InputError(cause, path=path, line=error.lineno, column=error.colno, fix="fetch it again") from None
        yield _row(path, line, values)


def _row(path: str, line: int, values: Any) -> Row | InputError:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(values, Mapping) or not _are_words(values.get("tokens")):
        return InputError("a sentence has no list 'tokens' of words", path=path, line=line, fix=_FIX)
    name = values.get("orig_id", values.get("id"))
    text, words = join_words(values["tokens"], spaced=False)
    told: dict[str, Any] = {"text": text, "words": [list(word) for word in words]}
    if name is not None:
        told["id"] = str(name)
    try:
        if "entities" in values:
            told["entities"] = [_entity(entity, words) for entity in values["entities"]]
        if "relations" in values:
            told["relations"] = [
                {"head": r["head"], "tail": r["tail"], "label": r["type"]} for r in values["relations"]
            ]
    except (KeyError, TypeError, IndexError):
        where = f"sentence '{name}'" if name is not None else f"the sentence '{text[:40]}…'"
        cause = f"{where} has an entity or a relation that is incomplete or leaves its {len(words)} words"
        return InputError(cause, path=path, line=line, fix=_FIX)
    return Row(values=told, path=path, line=line)


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word for word in value)


def _entity(entity: Mapping[str, Any], words: list[tuple[int, int]]) -> dict[str, Any]:
    start, end = entity["start"], entity["end"]
    if not 0 <= start < end:
        raise IndexError
    return {"start": words[start][0], "end": words[end - 1][1], "label": entity["type"]}
