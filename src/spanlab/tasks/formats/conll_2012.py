"""CoNLL-2012 or GUM columns to documents: words joined by spaces, with sentences, speakers and clusters by character.

A document whose sentences or name the file does not give has none in its row, either. The genre is the part of the
name before the first slash, as in OntoNotes.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.row import Row
from spanlab.text.conll_coref import CorefDocument, iterate_conll_coref


def read_conll_2012(path: str) -> Iterator[Row | InputError]:
    """One row per document: id, text, clusters, sentences, words, and speakers and genre if the file has them."""
    for document in iterate_conll_coref(path):
        if isinstance(document, InputError):
            yield document
        elif not document.words:
            cause = f"the document '{document.id}' has no words" if document.id else "the document has no words"
            yield InputError(cause, path=path, line=document.line, fix="remove it")
        else:
            yield Row(values=_values(document), path=path, line=document.line)


def _values(document: CorefDocument) -> dict[str, Any]:
    # Files stripped for a scorer have no words; a placeholder gives gold and prediction the same offsets.
    text, words = join_words([word or "_" for word in document.words], spaced=False)
    name = document.id if document.part in {None, 0} else f"{document.id}:{document.part}"
    values: dict[str, Any] = {
        "id": name,
        "text": text,
        "clusters": [[[words[first][0], words[end - 1][1]] for first, end in cluster] for cluster in document.clusters],
        "sentences": _sentences(document, words),
        "words": [list(word) for word in words],
    }
    if not document.id:
        del values["id"]
    if not document.is_split:
        del values["sentences"]
    if document.speakers:
        values["speakers"] = _turns(document.speakers, words)
    if "/" in document.id:
        values["genre"] = document.id.split("/")[0]
    return values


def _sentences(document: CorefDocument, words: Sequence[tuple[int, int]]) -> list[list[int]]:
    """[start, end] of each sentence, in characters."""
    ranges, first = [], 0
    for sentence in document.sentences:
        ranges.append([words[first][0], words[first + len(sentence) - 1][1]])
        first += len(sentence)
    return ranges


def _turns(speakers: Sequence[str | None], words: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """[start, end, speaker] of each run of words by one speaker, in characters."""
    turns: list[list[Any]] = []
    for speaker, group in groupby(range(len(words)), key=lambda word: speakers[word]):
        indices = list(group)
        turns.append([words[indices[0]][0], words[indices[-1]][1], speaker])
    return turns
