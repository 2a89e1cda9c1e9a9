"""The coreference column of CoNLL-2012 files, read and written; files of GUM and OntoGUM, read.

A file of documents enters, with one word per line, a blank line after each sentence, and chains (clusters) as brackets
in the last column: `(7` opens a mention of chain 7, `7)` closes it, `(7)` is a mention of one word. Documents leave,
with words, and clusters as spans of words. The word is the fourth column, the speaker the tenth of at least twelve; the
others (syntax, names, predicates) are ignored. Files with only a name and the chains, as scorers take them, are read as
documents with empty words. In GUM and OntoGUM there are three columns, the first of which counts the words; the
documents may have no names, and their sentences no blank lines between them.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, islice
from pathlib import Path

from spanlab.errors import InputError
from spanlab.text.plain_files import open_plain_files

WordSpan = tuple[int, int]
"""First word and last word (exclusive), counted through the whole document."""

NONE = "-"
_WORD_COLUMN, _SPEAKER_COLUMN, _ALL_COLUMNS = 3, 9, 12
_BEGIN = re.compile(r"#\s*begin document\b\s*(.*?)\s*")
_NAME_AND_PART = re.compile(r"\((.*)\);?\s*(?:part\s+(\d+))?")
_END = re.compile(r"#\s*end document.*")
_BRACKET = re.compile(r"(\()?([^()|]+)(\))?\|?")

MakeError = Callable[..., InputError]
"""Makes an error with the path and the current line."""


@dataclass(frozen=True, kw_only=True)
class CorefDocument:
    """A document, or a part of one: its sentences, speakers and chains of mentions."""

    id: str
    """Empty in a file without names."""
    part: int | None = None
    sentences: tuple[tuple[str, ...], ...]
    """Words by sentence; empty strings in a file without words."""
    is_split: bool = True
    """Whether its sentences are known; if not, all words are in one."""
    speakers: tuple[str | None, ...] = ()
    """The speaker of each word; empty where none is named."""
    clusters: tuple[tuple[WordSpan, ...], ...]
    """Chains in the order in which they open, mentions in the order of the text; duplicates are kept."""
    line: int | None = field(default=None, compare=False)
    """Its first line in the file."""

    @property
    def words(self) -> tuple[str, ...]:
        """All words in order."""
        return tuple(word for sentence in self.sentences for word in sentence)


def read_conll_coref(path: str | Path) -> list[CorefDocument]:
    """Every document of a file, in order; raises the first error."""
    documents = []
    for document in iterate_conll_coref(path):
        if isinstance(document, InputError):
            raise document
        documents.append(document)
    return documents


def iterate_conll_coref(path: str | Path) -> Iterator[CorefDocument | InputError]:
    """The documents of a file one by one; an invalid document is replaced by its first error."""
    text = "".join(open_plain_files([path]))
    seen: set[tuple[str, int | None]] = set()
    draft: _Draft | None = None
    stray = begun = False
    for line_number, line in enumerate(text.split("\n"), 1):
        row = line.strip(" \t\r")
        make_error = partial(InputError, path=path, line=line_number)
        if begin := _BEGIN.fullmatch(row):
            if draft is not None:
                yield make_error(f"a document begins before {draft.name} ends", fix="add '#end document'")
            draft, begun, stray = _Draft(begin[1], line_number), True, False
        elif draft is None:
            if row and not row.startswith("#") and not stray:
                yield make_error("a word outside any document", fix="begin with '#begin document (name); part 000'")
                stray = True
        elif _END.fullmatch(row):
            yield draft.finish(seen, make_error)
            draft = None
        else:
            draft.add_row(row, make_error)
    if draft is not None:
        yield InputError(f"the document {draft.name} does not end", path=path, fix="add '#end document'")
    elif not begun and not stray:
        raise InputError("has no '#begin document'", path=path, fix="use a file in CoNLL-2012 columns")


class _Draft:
    """A document while its lines are read."""

    def __init__(self, header: str, line: int) -> None:
        self.line = line
        self.error: InputError | None = None
        named = _NAME_AND_PART.fullmatch(header)
        self.id = named[1] if named else header
        self.part = int(named[2]) if named and named[2] else None
        self.name = f"'{self.id}'" if self.id else f"of line {line}"
        self.sentences: list[list[str]] = [[]]
        self.numbered: list[tuple[str, str] | None] = []
        """The first two cells of each row of three."""
        self.speakers: list[str | None] = []
        self.chains: dict[str, list[WordSpan]] = {}
        self.opened: dict[str, list[int]] = {}

    def add_row(self, row: str, make_error: MakeError) -> None:
        """Add a row; after the first invalid one, further rows are ignored."""
        if self.error is None:
            try:
                self._parse_row(row, make_error)
            except InputError as error:
                self.error = error

    def finish(self, seen: set[tuple[str, int | None]], make_error: MakeError) -> "CorefDocument | InputError":
        """The document, or its first error; `seen` are the ids and parts of the documents before it."""
        if self.error is not None:
            return self.error
        if self.id and (self.id, self.part) in seen:
            return make_error(f"the document '{self.id}' occurs twice", fix="number its parts")
        seen.add((self.id, self.part))
        try:
            return self._build(make_error)
        except InputError as error:
            return error

    def _parse_row(self, row: str, make_error: MakeError) -> None:
        """The row of a word, or the blank line after a sentence."""
        if not row:
            self.sentences.append([])
            return
        cells = row.split("\t") if "\t" in row else re.split(" +", row)
        if len(cells) < 2:
            raise make_error(f"'{row}' is a single column", fix="write the chains in the last column, '-' for none")
        self.sentences[-1].append(cells[_WORD_COLUMN] if len(cells) > _WORD_COLUMN + 1 else "")
        self.numbered.append((cells[0], cells[1]) if len(cells) == 3 else None)
        speaker = cells[_SPEAKER_COLUMN] if len(cells) >= _ALL_COLUMNS else NONE
        self.speakers.append(None if speaker in {NONE, "_"} else speaker)
        if cells[-1] not in {NONE, "_"}:
            self._parse_brackets(cells[-1], make_error)

    def _parse_brackets(self, cell: str, make_error: MakeError) -> None:
        word = len(self.speakers) - 1
        position = 0
        while position < len(cell):
            bracket = _BRACKET.match(cell, position)
            if bracket is None or not (bracket[1] or bracket[3]):
                raise make_error(f"'{cell}' is not a list of chains", fix="write (7, 7) or (7), with | between them")
            position = bracket.end()
            starts, chain = self.opened.setdefault(bracket[2], []), self.chains.setdefault(bracket[2], [])
            if bracket[1]:
                starts.append(word)
            if bracket[3]:
                if not starts:
                    raise make_error(f"'{bracket[2]})' closes a mention that was not opened")
                chain.append((starts.pop(), word + 1))

    def _build(self, make_error: MakeError) -> CorefDocument:
        """The document; an error if a mention is not closed."""
        for name, starts in self.opened.items():
            if starts:
                raise make_error(
                    f"the mention of chain {name} that opens at word {starts[-1] + 1} of {self.name} never closes"
                )
        sentences = tuple(tuple(sentence) for sentence in self.sentences if sentence)
        numbered = [cells for cells in self.numbered if cells is not None]
        is_numbered = len(numbered) == len(self.numbered) and _are_counted([index for index, _ in numbered], sentences)
        if is_numbered:
            words = iter([word for _, word in numbered])
            sentences = tuple(tuple(islice(words, len(sentence))) for sentence in sentences)
        return CorefDocument(
            id=self.id,
            part=self.part,
            sentences=sentences,
            is_split=not is_numbered or len(sentences) > 1,
            speakers=tuple(self.speakers) if any(self.speakers) else (),
            clusters=tuple(tuple(sorted(chain)) for chain in self.chains.values()),
            line=self.line,
        )


def _are_counted(indices: Sequence[str], sentences: Iterable[Sequence[str]]) -> bool:
    """Whether a column counts words, through the document or from the start of each sentence, from 0 or 1."""
    starts = set(accumulate(map(len, sentences), initial=0))
    expected: set[str] = set()
    for word, index in enumerate(indices):
        if index not in expected | ({"0", "1"} if word in starts else set()):
            return False
        expected = {str(int(index) + 1)}
    return bool(indices)


def format_conll_coref(document: CorefDocument) -> str:
    """A document as lines of twelve columns, unknown ones `-` or `*`; spaces in names of speakers become `_`."""
    _check_writable(document)
    mentions = [(start, end, chain) for chain, cluster in enumerate(document.clusters) for start, end in cluster]
    chains = chain_cells(mentions, len(document.words))
    part = "" if document.part is None else f" part {document.part:03d}"
    lines = [f"#begin document ({document.id});{part}"]
    word = 0
    for sentence in document.sentences:
        for index, text in enumerate(sentence):
            speaker = document.speakers[word] if document.speakers else None
            row = [document.id.replace(" ", "_") or NONE, str(document.part or 0), str(index), text, NONE, "*"]
            row += [NONE] * 3 + [(speaker or NONE).replace(" ", "_"), "*", chains[word]]
            lines.append("\t".join(row))
            word += 1
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def chain_cells(mentions: Iterable[tuple[int, int, Hashable]], length: int) -> list[str]:
    """The last column of `length` words with `mentions` (first word, last word exclusive, chain).

    In a cell, opening brackets precede closing ones, outer before inner. Mentions of one chain may nest but not cross:
    their brackets would be ambiguous.
    """
    opened: list[list[str]] = [[] for _ in range(length)]
    closed: list[list[str]] = [[] for _ in range(length)]
    ends: dict[Hashable, list[int]] = {}
    for start, end, chain in sorted(mentions, key=lambda mention: (mention[0], -mention[1])):
        around = [last for last in ends.get(chain, []) if last > start]
        if around and end > around[-1]:
            raise InputError(
                f"two mentions of chain {chain} cross at word {start + 1}", fix="columns cannot represent them"
            )
        ends[chain] = [*around, end]
        if end - start == 1:
            opened[start].append(f"({chain})")
        else:
            opened[start].append(f"({chain}")
            closed[end - 1].insert(0, f"{chain})")
    return ["|".join([*opens, *closes]) or NONE for opens, closes in zip(opened, closed, strict=True)]


def _check_writable(document: CorefDocument) -> None:
    """Raise on what columns cannot represent."""
    count = len(document.words)
    if document.speakers and len(document.speakers) != count:
        raise InputError(f"'{document.id}' has {count} words and {len(document.speakers)} speakers")
    if re.search(r"[\t\r\n]", "".join([document.id, *filter(None, document.speakers)])):
        raise InputError(f"a line break or tab in the name or a speaker of '{document.id}'")
    for word in document.words:
        if not word or re.search(r"[ \t\r\n]", word):
            raise InputError(
                f"the word '{word}' of '{document.id}' is empty or contains a space", fix="columns cannot represent it"
            )
    for start, end in (mention for chain in document.clusters for mention in chain):
        if not 0 <= start < end <= count:
            raise InputError(f"the mention {start} to {end} of '{document.id}' is outside its {count} words")
