"""Entities and relations by word index, a common form of SciERC: one JSON list of sentences.

    [{"tokens": […], "entities": [{"type", "start", "end"}], "relations": [{"type", "head", "tail"}], "orig_id": …}, …]

`start` and `end` (exclusive) are word indices, `head` and `tail` entity indices. Each sentence leaves as a row: the
words joined by spaces, with character offsets. Sentences are decoded one by one, so that each row has its line and an
invalid sentence does not affect the others.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json_at
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.lines import read_text
from spanlab.tasks.formats.row import Row

_FIX = 'write {"tokens": […], "entities": [{"type", "start", "end"}], "relations": [{"type", "head", "tail"}]}'


def is_word_relations(line: str) -> bool:
    """Whether the first line of a file begins a JSON list."""
    return line.lstrip().startswith("[")


def read_word_relations(path: str) -> Iterator[Row | InputError]:
    """One row per sentence: id, text, words, entities and relations."""
    text = read_text(path)
    position, line = text.index("[") + 1, 1
    counted = 0  # line breaks before this position are in `line`
    while True:
        while position < len(text) and (text[position].isspace() or text[position] == ","):
            position += 1
        line += text.count("\n", counted, position)
        counted = position
        if text[position : position + 1] == "]":
            return
        sentence, position = parse_json_at(text, position, path=path, fix="download it again")
        yield _row(path, line, sentence)


def _row(path: str, line: int, sentence: Any) -> Row | InputError:  # noqa: ANN401 (anything JSON holds)
    if not isinstance(sentence, Mapping) or not _are_words(sentence.get("tokens")):
        return InputError("a sentence has no list 'tokens' of words", path=path, line=line, fix=_FIX)
    sentence_id = sentence.get("orig_id", sentence.get("id"))
    text, words = join_words(sentence["tokens"], spaced=False)
    values: dict[str, Any] = {"text": text, "words": [list(word) for word in words]}
    if sentence_id is not None:
        values["id"] = str(sentence_id)
    try:
        if "entities" in sentence:
            values["entities"] = [_entity(entity, words) for entity in sentence["entities"]]
        if "relations" in sentence:
            values["relations"] = [
                {"head": r["head"], "tail": r["tail"], "label": r["type"]} for r in sentence["relations"]
            ]
    except (KeyError, TypeError, IndexError):
        where = f"sentence '{sentence_id}'" if sentence_id is not None else f"the sentence '{text[:40]}…'"
        cause = f"{where} has an entity or a relation that is incomplete or outside its {len(words)} words"
        return InputError(cause, path=path, line=line, fix=_FIX)
    return Row(values=values, path=path, line=line)


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and word for word in value)


def _entity(entity: Mapping[str, Any], words: list[tuple[int, int]]) -> dict[str, Any]:
    start, end = entity["start"], entity["end"]
    if not 0 <= start < end:
        raise IndexError
    return {"start": words[start][0], "end": words[end - 1][1], "label": entity["type"]}
