"""Tags by the word and the spans they spell: IOB1, IOB2, BIOES and BMES.

What enters is tags such as `B-PER`; what leaves is labelled spans of words, end exclusive, and the other way round. A
tag is a letter, a hyphen and a label, or `O`; a letter alone, as word segmenters write, has the label `_`. In IOB1 an
entity begins with I, and with B only where it follows one of its own label; in IOB2 always with B; BIOES also marks
the last word (E) and the only word (S); BMES is BIOES with M for I.

Models write tags that no scheme allows. Reading is therefore lenient by default, by the rules of conlleval that
papers report, and strict on request, by those of seqeval's strict mode.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from spanlab.errors import InputError

TagScheme = Literal["IOB1", "IOB2", "BIOES", "BMES"]
TAG_SCHEMES: tuple[TagScheme, ...] = get_args(TagScheme)

_LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BMES": "BMES"}
_NO_LABEL = "_"
_SLIPS = 0.01
"""The share of openings that may be of the other scheme."""


class LabelledSpan(NamedTuple):
    """A stretch of words or characters, end exclusive, and what it is."""

    start: int
    end: int
    label: str


class _Tag(NamedTuple):
    letter: str
    label: str


_OUTSIDE = _Tag("O", "")


def tags_to_spans(tags: Sequence[str], scheme: TagScheme, *, strict: bool = False) -> list[LabelledSpan]:
    """The spans that one sentence's tags spell, in order.

    Lenient reading takes the letters of any scheme and loses no tag: an entity ends where the label changes, after E
    and S, before B, S and O, and whatever follows begins another. Strict reading keeps only what the scheme itself
    would have written, and refuses letters that it does not have.
    """
    parsed = [_parse(tag, scheme if strict else None) for tag in tags]
    spans = _runs(parsed)
    if not strict:
        return spans
    if scheme == "IOB1":
        return _strict_iob1(parsed, spans)
    pattern = re.compile("BI*" if scheme == "IOB2" else "S|B[IM]*E")
    return [span for span in spans if pattern.fullmatch("".join(tag.letter for tag in parsed[span.start : span.end]))]


def spans_to_tags(spans: Iterable[tuple[int, int, str]], length: int, scheme: TagScheme) -> list[str]:
    """The tags of a sentence of `length` words; the spans lie inside it and do not overlap."""
    tags = ["O"] * length
    before = LabelledSpan(0, 0, "")
    for start, end, label in sorted(spans):
        if not (0 <= start < end <= length and label):
            raise InputError(f"the span {start} to {end} '{label}' does not fit a sentence of {length} words")
        if start < before.end:
            raise InputError(
                f"the spans {before.start} to {before.end} and {start} to {end} overlap, and tags cannot nest",
                fix="keep one of them",
            )
        follows_its_own = before.end == start and before.label == label
        letters = _spell(end - start, scheme, follows_its_own=follows_its_own)
        tags[start:end] = [f"{letter}-{label}" for letter in letters]
        before = LabelledSpan(start, end, label)
    return tags


def detect_scheme(sequences: Iterable[Sequence[str]]) -> TagScheme:
    """Which scheme wrote these sentences' tags.

    M tells BMES; E or S without M tells BIOES (the two are one where no entity has three words); an entity that opens
    with I tells IOB1, and without one it is IOB2. Published files have slips of the pen (CoNLL-2003 opens two of its
    23,499 entities as in IOB2), so one opening in a hundred may be of the other kind. Tags that fit none are an error
    that names two places in conflict.
    """
    places: dict[str, str] = {}
    openings = Counter[str]()
    for number, tags in enumerate(sequences, 1):
        for index, (before, tag) in enumerate(pairwise([_OUTSIDE, *map(_parse, tags)]), 1):
            place = f"tag {index} of sentence {number} ('{tags[index - 1]}')"
            places.setdefault(tag.letter, place)
            told = _told_by_opening(before, tag)
            if told is not None:
                places.setdefault(told, place)
                openings[told] += 1
    if places.keys() & set("MES"):
        return _with_ends(places)
    if openings["IOB1"] <= _SLIPS * openings["IOB2"]:
        return "IOB2"
    if openings["IOB2"] <= _SLIPS * openings["IOB1"]:
        return "IOB1"
    raise InputError(
        f"the tag scheme cannot be told: {places['IOB1']} opens an entity as in IOB1, {places['IOB2']} as in IOB2",
        fix="begin every entity with B-, or name the scheme",
    )


def _told_by_opening(before: _Tag, tag: _Tag) -> TagScheme | None:
    """Which of the two IOB schemes alone opens an entity so."""
    if tag.letter == "I" and not _joined(before, tag):
        return "IOB1"
    return "IOB2" if tag.letter == "B" and before.label != tag.label else None


def _with_ends(places: dict[str, str]) -> TagScheme:
    """BMES or BIOES, or why neither."""
    if "M" in places and "I" in places:
        raise InputError(
            f"the tag scheme cannot be told: {places['M']} is of BMES, {places['I']} of BIOES", fix="write M as I"
        )
    if not places.keys() & set("BS"):
        raise InputError(
            f"the tag scheme cannot be told: {places.get('E') or places['M']} is not preceded by any B- anywhere",
            fix="IOE tags are not read: convert them to IOB2 or BIOES",
        )
    return "BMES" if "M" in places else "BIOES"


def _parse(tag: str, scheme: TagScheme | None = None) -> _Tag:
    """A tag's letter, one that the scheme has, and its label."""
    if tag == "O":
        return _OUTSIDE
    letter, hyphen, label = tag.partition("-")
    allowed = _LETTERS[scheme] if scheme else "BIMES"
    if len(letter) != 1 or letter not in allowed or (hyphen and not label):
        known = (
            "write U- as S- and L- as E-" if letter in {"U", "L"} else "a tag is O or a letter, a hyphen and a label"
        )
        raise InputError(f"'{tag}' is no tag of {scheme or ', '.join(TAG_SCHEMES)}", fix=known)
    return _Tag(letter, label or _NO_LABEL)


def _joined(before: _Tag, tag: _Tag) -> bool:
    """Whether two neighbouring tags stand in one entity, by conlleval's rules."""
    return before.letter not in "ESO" and tag.letter not in "BSO" and before.label == tag.label


def _runs(tags: Sequence[_Tag]) -> list[LabelledSpan]:
    """Every maximal run of joined tags."""
    spans = []
    start = 0
    for index, (before, tag) in enumerate(pairwise([_OUTSIDE, *tags, _OUTSIDE])):
        if _joined(before, tag):
            continue
        if before != _OUTSIDE:
            spans.append(LabelledSpan(start, index, before.label))
        start = index
    return spans


def _strict_iob1(tags: Sequence[_Tag], spans: Sequence[LabelledSpan]) -> list[LabelledSpan]:
    """Runs as seqeval's strict IOB1 counts them.

    A B that does not follow its own label opens nothing, and the I after it opens an entity; a lone B with such a B
    behind it is lost.
    """
    kept = []
    for span in spans:
        before = tags[span.start - 1] if span.start else _OUTSIDE
        after = tags[span.end] if span.end < len(tags) else _OUTSIDE
        alone = span.end - span.start == 1
        if tags[span.start].letter == "I":
            kept.append(span)
        elif before.label != span.label:
            kept += [] if alone else [span._replace(start=span.start + 1)]
        elif not (alone and after.letter == "B" and after.label != span.label):
            kept.append(span)
    return kept


def _spell(length: int, scheme: TagScheme, *, follows_its_own: bool) -> str:
    """The letters of an entity of `length` words."""
    if scheme == "IOB1":
        return ("B" if follows_its_own else "I") + "I" * (length - 1)
    if scheme == "IOB2":
        return "B" + "I" * (length - 1)
    inside = "I" if scheme == "BIOES" else "M"
    return "S" if length == 1 else "B" + inside * (length - 2) + "E"
