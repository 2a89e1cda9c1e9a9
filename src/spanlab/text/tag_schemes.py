"""Tags of words and the spans they encode: IOB1, IOB2, BIOES and BMES.

What enters is tags such as `B-PER`; what leaves is labelled spans of words, end exclusive, and the reverse. A tag is a
letter, a hyphen and a label, or `O`; a letter alone, as word segmenters write, has the label `_`. In IOB1 an entity
begins with I, and with B only where it follows one of the same label; in IOB2 always with B; BIOES also marks the last
word (E) and the only word (S); BMES is BIOES with M for I.

Models predict tags that no scheme allows. Reading is therefore lenient by default, by the rules of conlleval that
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
_TOLERANCE = 0.01
"""The share of openings that may be of the other scheme."""


class LabelledSpan(NamedTuple):
    """A span of words or characters, end exclusive, and its label."""

    start: int
    end: int
    label: str


class _Tag(NamedTuple):
    letter: str
    label: str


_OUTSIDE = _Tag("O", "")


def tags_to_spans(tags: Sequence[str], scheme: TagScheme, *, strict: bool = False) -> list[LabelledSpan]:
    """The spans that the tags of one sentence encode, in order.

    Lenient reading takes the letters of any scheme and loses no tag: an entity ends where the label changes, after E
    and S, before B, S and O, and the next tag begins another. Strict reading keeps only entities that the scheme itself
    would write, and rejects letters that it does not have.
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
    """The tags of a sentence of `length` words; the spans must be inside it and not overlap."""
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
        follows_same_label = before.end == start and before.label == label
        letters = _letters(end - start, scheme, follows_same_label=follows_same_label)
        tags[start:end] = [f"{letter}-{label}" for letter in letters]
        before = LabelledSpan(start, end, label)
    return tags


def detect_scheme(sequences: Iterable[Sequence[str]]) -> TagScheme:
    """The scheme of these sentences' tags.

    M means BMES; E or S without M means BIOES (the two are the same where no entity has three words); an entity that
    opens with I means IOB1, otherwise IOB2. Published files have mistakes (CoNLL-2003 opens two of its 23,499 entities
    as in IOB2), so one opening in a hundred may be of the other scheme. Tags that fit none are an error that names two
    tags in conflict.
    """
    seen: dict[str, str] = {}  # a letter or an IOB scheme, and the first tag that has it
    openings = Counter[str]()
    for sentence, tags in enumerate(sequences, 1):
        for index, (before, tag) in enumerate(pairwise([_OUTSIDE, *map(_parse, tags)]), 1):
            where = f"tag {index} of sentence {sentence} ('{tags[index - 1]}')"
            seen.setdefault(tag.letter, where)
            scheme = _scheme_of_opening(before, tag)
            if scheme is not None:
                seen.setdefault(scheme, where)
                openings[scheme] += 1
    if seen.keys() & set("MES"):
        return _with_ends(seen)
    if openings["IOB1"] <= _TOLERANCE * openings["IOB2"]:
        return "IOB2"
    if openings["IOB2"] <= _TOLERANCE * openings["IOB1"]:
        return "IOB1"
    raise InputError(
        f"the tag scheme is not clear: {seen['IOB1']} opens an entity as in IOB1, {seen['IOB2']} as in IOB2",
        fix="begin every entity with B-, or name the scheme",
    )


def _scheme_of_opening(before: _Tag, tag: _Tag) -> TagScheme | None:
    """The IOB scheme that opens an entity this way, where only one does."""
    if tag.letter == "I" and not _joined(before, tag):
        return "IOB1"
    return "IOB2" if tag.letter == "B" and before.label != tag.label else None


def _with_ends(seen: dict[str, str]) -> TagScheme:
    """BMES or BIOES, or why neither."""
    if "M" in seen and "I" in seen:
        raise InputError(
            f"the tag scheme is not clear: {seen['M']} is of BMES, {seen['I']} of BIOES", fix="write M as I"
        )
    if not seen.keys() & set("BS"):
        raise InputError(
            f"the tag scheme is not clear: {seen.get('E') or seen['M']} is not preceded by any B- anywhere",
            fix="convert IOE tags to IOB2 or BIOES",
        )
    return "BMES" if "M" in seen else "BIOES"


def _parse(tag: str, scheme: TagScheme | None = None) -> _Tag:
    """The letter, which the scheme must have, and the label of a tag."""
    if tag == "O":
        return _OUTSIDE
    letter, hyphen, label = tag.partition("-")
    allowed = _LETTERS[scheme] if scheme else "BIMES"
    if len(letter) != 1 or letter not in allowed or (hyphen and not label):
        bilou = letter in {"U", "L"}
        fix = "write U- as S- and L- as E-" if bilou else "write O, or a letter, a hyphen and a label"
        raise InputError(f"'{tag}' is not a tag of {scheme or ', '.join(TAG_SCHEMES)}", fix=fix)
    return _Tag(letter, label or _NO_LABEL)


def _joined(before: _Tag, tag: _Tag) -> bool:
    """Whether two neighbouring tags are in one entity, by conlleval's rules."""
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

    A B that does not follow its own label opens nothing, and the I after it opens an entity; a lone B followed by such
    a B is lost.
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


def _letters(length: int, scheme: TagScheme, *, follows_same_label: bool) -> str:
    """The letters of an entity of `length` words."""
    if scheme == "IOB1":
        return ("B" if follows_same_label else "I") + "I" * (length - 1)
    if scheme == "IOB2":
        return "B" + "I" * (length - 1)
    inside = "I" if scheme == "BIOES" else "M"
    return "S" if length == 1 else "B" + inside * (length - 2) + "E"
