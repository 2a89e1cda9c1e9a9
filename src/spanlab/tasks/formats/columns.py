"""CoNLL columns: one word and its tag per line, a blank line after each sentence.

A file enters; each sentence leaves as one text with character spans. Words are joined by a space, except between
Chinese or Japanese characters and in files that list the spaces of the text as words. The tag scheme (IOB1, IOB2, BIOES
or BMES) is detected from the tags of the whole file, so all sentences are read before the first row is yielded.
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
_FIX = "write one word and its tag per line, or name the columns, such as data.columns=[word,_,_,tag]"


@dataclass(kw_only=True)
class _Sentence:
    line: int
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


def read_columns(path: str, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """One row per sentence: text, spans, and the words as character ranges."""
    if columns and "word" not in columns:
        raise InputError("data.columns does not name 'word'", fix="such as data.columns=[word,_,_,tag]")
    sentences, errors = _read_sentences(path, columns)
    yield from errors
    scheme = _scheme(path, sentences)
    spaced = any(word.isspace() for sentence in sentences for word in sentence.words)
    for sentence in sentences:
        yield _row(path, sentence, scheme, spaced=spaced)


def _read_sentences(path: str, columns: Sequence[str]) -> tuple[list[_Sentence], list[InputError]]:
    """All sentences of the file, and the errors of lines that cannot be read."""
    sentences: list[_Sentence] = []
    errors: list[InputError] = []
    current: _Sentence | None = None
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            errors.append(line)
        elif not line.strip(" \t") or line.startswith("-DOCSTART-"):
            current = None
        else:
            cells = line.split("\t") if "\t" in line else line.split()
            if line.startswith("#") and not _TAG.fullmatch(cells[-1]):  # a comment, not a word "#" with a tag
                continue
            word, tag = _word_and_tag(path, line_number, cells, columns)
            if isinstance(tag, InputError):
                errors.append(tag)
                continue
            if current is None:
                current = _Sentence(line=line_number)
                sentences.append(current)
            current.words.append(word)
            current.tags.append(tag)
    return sentences, errors


def _word_and_tag(
    path: str, line_number: int, cells: list[str], columns: Sequence[str]
) -> tuple[str, str | InputError]:
    """The word of a line and its tag, or the error in place of the tag; "O" if the file has no tags."""
    if columns and len(cells) != len(columns):
        cause = f"{len(cells)} columns, but data.columns names {len(columns)}"
        return "", InputError(cause, path=path, line=line_number, fix=_FIX)
    word = cells[columns.index("word")] if columns else cells[0]
    if columns and "tag" not in columns:
        return word, "O"
    tag = cells[columns.index("tag")] if columns else cells[-1]
    if len(cells) < 2 and not columns:
        return word, InputError(f"only one column ('{word}'), no tag", path=path, line=line_number, fix=_FIX)
    if not _TAG.fullmatch(tag):
        return word, InputError(f"'{tag}' is not a tag", path=path, line=line_number, fix=_FIX)
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
    """The sentence, and the character range of each word in it; with `spaced`, spaces are words themselves."""
    text, ranges = "", []
    for word in words:
        if text and not spaced and not (_is_unspaced(text[-1]) and _is_unspaced(word[0])):
            text += " "
        ranges.append((len(text), len(text) + len(word)))
        text += word
    return text, ranges


def _is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script written without spaces."""
    name = unicodedata.name(character, "")
    return name.startswith(("CJK", "HIRAGANA", "KATAKANA", "FULLWIDTH", "IDEOGRAPHIC"))
