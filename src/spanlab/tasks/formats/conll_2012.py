"""CoNLL-2012's columns as documents of text: words joined by spaces, sentences, speakers and chains by character.

The genre is what stands before the first slash of a document's name, as in OntoNotes.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from spanlab.errors import InputError
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.row import Row
from spanlab.text.conll_coref import CorefDocument, iterate_conll_coref


def read_conll_2012(path: str) -> Iterator[Row | InputError]:
    """One row a document."""
    for document in iterate_conll_coref(path):
        if isinstance(document, InputError):
            yield document
        elif not document.words:
            yield InputError(f"the document '{document.id}' has no sentence", path=path, line=document.line)
        else:
            yield Row(values=_values(document), path=path, line=document.line)


def _values(document: CorefDocument) -> dict[str, Any]:
    # Files cut down for a scorer have no words: any will do, as long as both sides have the same.
    text, words = join_words([word or "_" for word in document.words], spaced=False)
    name = document.id if document.part in {None, 0} else f"{document.id}:{document.part}"
    values: dict[str, Any] = {
        "id": name,
        "text": text,
        "clusters": [[[words[first][0], words[end - 1][1]] for first, end in chain] for chain in document.clusters],
        "sentences": _sentences(document, words),
        "words": [list(word) for word in words],
    }
    if document.speakers:
        values["speakers"] = _turns(document.speakers, words)
    if "/" in document.id:
        values["genre"] = document.id.split("/")[0]
    return values


def _sentences(document: CorefDocument, words: Sequence[tuple[int, int]]) -> list[list[int]]:
    found, first = [], 0
    for sentence in document.sentences:
        found.append([words[first][0], words[first + len(sentence) - 1][1]])
        first += len(sentence)
    return found


def _turns(speakers: Sequence[str | None], words: Sequence[tuple[int, int]]) -> list[list[Any]]:
    turns: list[list[Any]] = []
    for name, group in groupby(range(len(words)), key=lambda word: speakers[word]):
        places = list(group)
        turns.append([words[places[0]][0], words[places[-1]][1], name])
    return turns
