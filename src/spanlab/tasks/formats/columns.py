"""CoNLL columns: one word and its tag per line, a blank line after each sentence.

A file enters; each sentence leaves as one text with character spans. Words are joined by a space, except between
Chinese or Japanese characters and in files that list the spaces of the text as words. Entities are those that conlleval
finds, whatever the scheme (IOB1, IOB2, BIOES, BILOU or BMES). An entity that the scheme of the file would have written
otherwise is a warning of its row; unless it is named, the scheme is detected from the tags of the whole file, so all
sentences are read before the first row is yielded.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spanlab.errors import InputError
from spanlab.tasks.formats.lines import read_lines
from spanlab.tasks.formats.row import Row, RowWarning
from spanlab.text.tag_schemes import ALL_LETTERS, TAG_LETTERS, TagScheme, detect_scheme, irregular_tags, tags_to_spans

AUTO: Literal["auto"] = "auto"
_TAG = re.compile(rf"O|[{ALL_LETTERS}]-\S+|[{ALL_LETTERS}]")
_DOCUMENT_START = "-DOCSTART-"
_FIX = "write one word and its tag per line, or name the columns, such as data.columns=word,_,_,tag"


def holds_tags(lines: Sequence[str]) -> bool:
    """Whether lines are columns whose last is a tag, and at least one tag has a label; not texts or a table."""
    cells = [_split(line) for line in lines if not _ends_sentence(line) and not _is_comment(line)]
    are_columns = all(len(row) >= 2 and _TAG.fullmatch(row[-1]) for row in cells)
    return are_columns and any("-" in row[-1] for row in cells)


@dataclass(kw_only=True)
class _Sentence:
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    document: int = 0
    """The number of its document in the file; 0 in a file that does not say where documents begin."""


def read_columns(
    path: str, columns: Sequence[str] = (), tag_scheme: TagScheme | Literal["auto"] = AUTO
) -> Iterator[Row | InputError]:
    """One row per sentence: text, spans, and the words as character ranges."""
    if columns and "word" not in columns:
        raise InputError("data.columns does not name 'word'", fix="such as data.columns=word,_,_,tag")
    sentences, errors = _read_sentences(path, columns, tag_scheme)
    yield from errors
    scheme = _scheme(path, sentences) if tag_scheme == AUTO else tag_scheme
    spaced = any(word.isspace() for sentence in sentences for word in sentence.words)
    for sentence in sentences:
        yield _row(path, sentence, scheme, spaced=spaced)


def _read_sentences(
    path: str, columns: Sequence[str], tag_scheme: TagScheme | Literal["auto"]
) -> tuple[list[_Sentence], list[InputError]]:
    """All sentences of the file, and the errors of lines that cannot be read."""
    sentences: list[_Sentence] = []
    errors: list[InputError] = []
    current: _Sentence | None = None
    document = 0
    for line_number, line in read_lines(path):
        if isinstance(line, InputError):
            errors.append(line)
        elif _ends_sentence(line):
            current = None
            document += line.startswith(_DOCUMENT_START)
        elif not _is_comment(line):
            try:
                word, tag = _word_and_tag(_split(line), columns, tag_scheme)
            except InputError as error:
                errors.append(InputError(error.cause, path=path, line=line_number, fix=error.fix))
                continue
            if current is None:
                current = _Sentence(document=document)
                sentences.append(current)
            current.words.append(word)
            current.tags.append(tag)
            current.lines.append(line_number)
    return sentences, errors


def _split(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _ends_sentence(line: str) -> bool:
    return not line.strip(" \t") or line.startswith(_DOCUMENT_START)


def _is_comment(line: str) -> bool:
    """Whether a line is a comment, and not the word "#" with a tag."""
    return line.startswith("#") and not _TAG.fullmatch(_split(line)[-1])


def _word_and_tag(cells: list[str], columns: Sequence[str], tag_scheme: TagScheme | Literal["auto"]) -> tuple[str, str]:
    """The word of a line and its tag; "O" if the file has no tags."""
    if columns and len(cells) != len(columns):
        raise InputError(f"{len(cells)} columns, but data.columns names {len(columns)}", fix=_FIX)
    word = cells[columns.index("word")] if columns else cells[0]
    if not word:
        raise InputError("the word is empty", fix="write a word, or remove the line")
    if columns and "tag" not in columns:
        return word, "O"
    if len(cells) < 2 and not columns:
        raise InputError(f"only one column ('{word}'), no tag", fix=_FIX)
    tag = cells[columns.index("tag")] if columns else cells[-1]
    if not _TAG.fullmatch(tag):
        raise InputError(f"'{tag}' is not a tag", fix=_FIX)
    if tag_scheme != AUTO and tag[0] not in ("O", *TAG_LETTERS[tag_scheme]):
        raise InputError(f"'{tag}' is not a tag of {tag_scheme}", fix="correct it, or data.tag_scheme")
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
    warnings = tuple(
        RowWarning(
            line=sentence.lines[index],
            kind="irregular tag",
            cause=f"the entity that begins with '{sentence.tags[index]}' is not written as in {scheme}",
            reading="read as conlleval reads it",
        )
        for index in irregular_tags(sentence.tags, scheme)
    )
    document = str(sentence.document) if sentence.document else None
    return Row(values=values, path=path, line=sentence.lines[0], document=document, warnings=warnings)


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
