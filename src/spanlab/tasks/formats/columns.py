"""CoNLL columns: a word and its tag a line, a blank line after each sentence.

What leaves is the sentence as one text with spans by character. Words are joined by a space; where the words are
Chinese or Japanese characters, or where the file has the spaces of the text as words of their own, by nothing. Which
of IOB1, IOB2, BIOES and BMES the tags are is told from the tags of the whole file, so sentences are collected first.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row
from spanlab.text.tag_schemes import TagScheme, detect_scheme, tags_to_spans

_TAG = re.compile(r"O|[BIMESO]-\S+|[BIMES]")
_FIX = "write a word and its tag a line, or name the columns, such as data.columns=[word,_,_,tag]"


@dataclass(kw_only=True)
class _Sentence:
    line: int
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_columns(path: str, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """One row a sentence: text, spans, and the words as character ranges."""
    _check_columns(columns)
    sentences, faults = _collect(path, columns)
    yield from faults
    scheme = _scheme(path, sentences)
    spaced = any(word.isspace() for sentence in sentences for word in sentence.words)
    for sentence in sentences:
        yield _row(path, sentence, scheme, spaced=spaced)


def _check_columns(columns: Sequence[str]) -> None:
    if columns and "word" not in columns:
        raise InputError("data.columns does not name 'word'", fix="such as data.columns=[word,_,_,tag]")


def _collect(path: str, columns: Sequence[str]) -> tuple[list[_Sentence], list[InputError]]:
    sentences: list[_Sentence] = []
    faults: list[InputError] = []
    current: _Sentence | None = None
    for number, line in read_lines(path):
        if isinstance(line, InputError):
            faults.append(line)
        elif not line.strip(" \t") or line.startswith("-DOCSTART-"):
            current = None if "\t" not in line or not line.strip() else current
        else:
            cells = _cells(line)
            if line.startswith("#") and not _TAG.fullmatch(cells[-1]):
                continue
            word, tag = _word_and_tag(path, number, cells, columns)
            if isinstance(tag, InputError):
                faults.append(tag)
                continue
            if current is None:
                current = _Sentence(line=number)
                sentences.append(current)
            current.words.append(word)
            current.tags.append(tag)
    return sentences, faults


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _word_and_tag(path: str, number: int, cells: list[str], columns: Sequence[str]) -> tuple[str, str | InputError]:
    if columns and len(cells) != len(columns):
        cause = f"{len(cells)} columns, and data.columns names {len(columns)}"
        return "", InputError(cause, path=path, line=number, fix=_FIX)
    word = cells[columns.index("word")] if columns else cells[0]
    if columns and "tag" not in columns:
        return word, "O"
    tag = cells[columns.index("tag")] if columns else cells[-1]
    if len(cells) < 2 and not columns:
        return word, InputError(
            f"one column, '{word}', where a word and a tag belong", path=path, line=number, fix=_FIX
        )
    if not _TAG.fullmatch(tag):
        return word, InputError(f"'{tag}' is no tag", path=path, line=number, fix=_FIX)
    return word, tag


def _scheme(path: str, sentences: Sequence[_Sentence]) -> TagScheme:
    try:
        return detect_scheme([sentence.tags for sentence in sentences])
    except InputError as error:
        raise InputError(error.cause, path=path, fix=error.fix) from None


def _row(path: str, sentence: _Sentence, scheme: TagScheme, *, spaced: bool) -> Row:
    text, words = join_words(sentence.words, spaced=spaced)
    spans = [
        {"start": words[span.start][0], "end": words[span.end - 1][1], "label": span.label}
        for span in tags_to_spans(sentence.tags, scheme)
    ]
    values = {"text": text, "spans": spans, "words": [list(word) for word in words]}
    return Row(values=values, path=path, line=sentence.line)


def join_words(words: Sequence[str], *, spaced: bool) -> tuple[str, list[tuple[int, int]]]:
    """The sentence, and where each word stands in it."""
    text, places = "", []
    for word in words:
        if text and not spaced and not (_is_unspaced(text[-1]) and _is_unspaced(word[0])):
            text += " "
        places.append((len(text), len(text) + len(word)))
        text += word
    return text, places


def _is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that writes no spaces; digits and Latin letters beside it do not."""
    name = unicodedata.name(character, "")
    return name.startswith(("CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH", "IDEOGRAPHIC"))
