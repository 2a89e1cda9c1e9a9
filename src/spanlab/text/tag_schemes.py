"""Tags of words and the spans they encode: IOB1, IOB2, BIOES, BILOU and BMES.

What enters is tags such as `B-PER`; what leaves is labelled spans of words, end exclusive, and the reverse. A tag is a
letter, a hyphen and a label, or `O`; a letter alone, as word segmenters write, has the label `_`. In IOB1 an entity
begins with I, and with B only where it follows one of the same label; in IOB2 always with B; BIOES also marks the last
word (E) and the only word (S); BILOU is BIOES with L for E and U for S, BMES with M for I.

Models predict tags that no scheme allows, and published files mix schemes. Reading is therefore lenient by default, by
the rules of conlleval that papers report and under which every scheme reads alike, and strict on request, by those of
seqeval's strict mode. `irregular_tags` finds the entities that a scheme would have written otherwise.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from spanlab.errors import InputError

TagScheme = Literal["IOB1", "IOB2", "BIOES", "BILOU", "BMES"]
TAG_SCHEMES: tuple[TagScheme, ...] = get_args(TagScheme)

TAG_LETTERS: Mapping[TagScheme, str] = {
    "IOB1": "BI",
    "IOB2": "BI",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMES": "BMES",
}
"""The letters of a scheme, beside O."""
ALL_LETTERS = "BIMESLU"
_SAME_AS = {"L": "E", "U": "S"}
"""Letters of BILOU, and those of BIOES in their place."""
_NO_LABEL = "_"
_REGULAR = {
    "IOB2": re.compile("BI*"),
    "BIOES": re.compile("S|BI*E"),
    "BILOU": re.compile("S|BI*E"),
    "BMES": re.compile("S|BM*E"),
}
"""The letters of an entity; in IOB1 they depend on the tag before it."""


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
    return [span for span in spans if _REGULAR[scheme].fullmatch(_letters_of(parsed, span))]


def irregular_tags(tags: Sequence[str], scheme: TagScheme) -> list[int]:
    """The first word of every entity that lenient reading finds and the scheme would have written otherwise."""
    parsed = [_parse(tag) for tag in tags]
    irregular = []
    for span in _runs(parsed):
        letters, before = _letters_of(parsed, span), parsed[span.start - 1] if span.start else _OUTSIDE
        if scheme == "IOB1" and before.label != span.label:
            regular = re.fullmatch("I+", letters)
        else:
            regular = _REGULAR["IOB2" if scheme == "IOB1" else scheme].fullmatch(letters)
        if not regular:
            irregular.append(span.start)
    return irregular


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
    """The scheme of these sentences' tags; of several that are mixed, the one that most of them are written in.

    L or U means BILOU, M BMES, and E or S without M BIOES (the last two are the same where no entity has three words);
    of the others, an entity that opens with I means IOB1, otherwise IOB2. Published files mix them (CoNLL-2003 opens
    two of its 23,499 entities as in IOB2, submissions to WNUT-17 and the test file of Weibo NER open some as in IOB1),
    and conlleval reads all alike.
    Tags that close entities and never open one are of none of them, and an error.
    """
    seen: dict[str, str] = {}  # a letter, and the first tag that has it
    counts = Counter[str]()  # of letters, and of openings as in one IOB scheme
    for sentence, tags in enumerate(sequences, 1):
        for index, (before, tag) in enumerate(pairwise([_OUTSIDE, *map(_parse, tags)]), 1):
            seen.setdefault(tag.letter, f"tag {index} of sentence {sentence} ('{tags[index - 1]}')")
            counts[tag.letter] += 1
            counts["BILOU"] += tags[index - 1][0] in _SAME_AS
            counts[_scheme_of_opening(before, tag)] += 1
    if seen.keys() & set("MES"):
        if not seen.keys() & set("BS"):
            raise InputError(
                f"the tag scheme is not clear: {seen.get('E') or seen['M']} is not preceded by any B- anywhere",
                fix="convert IOE tags to IOB2 or BIOES",
            )
        if counts["BILOU"] > (counts["E"] + counts["S"]) / 2:
            return "BILOU"
        return "BMES" if counts["M"] and counts["M"] >= counts["I"] else "BIOES"
    return "IOB1" if counts["IOB1"] > counts["IOB2"] else "IOB2"


def _scheme_of_opening(before: _Tag, tag: _Tag) -> str:
    """The IOB scheme that opens an entity this way; empty where both do, or none."""
    if tag.letter == "I" and not _joined(before, tag):
        return "IOB1"
    return "IOB2" if tag.letter == "B" and before.label != tag.label else ""


def _parse(tag: str, scheme: TagScheme | None = None) -> _Tag:
    """The letter, which the scheme must have, and the label of a tag."""
    if tag == "O":
        return _OUTSIDE
    letter, hyphen, label = tag.partition("-")
    allowed = TAG_LETTERS[scheme] if scheme else ALL_LETTERS
    if len(letter) != 1 or letter not in allowed or (hyphen and not label):
        fix = "write O, or a letter, a hyphen and a label"
        raise InputError(f"'{tag}' is not a tag of {scheme or ', '.join(TAG_SCHEMES)}", fix=fix)
    return _Tag(_SAME_AS.get(letter, letter), label or _NO_LABEL)


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


def _letters_of(tags: Sequence[_Tag], span: LabelledSpan) -> str:
    return "".join(tag.letter for tag in tags[span.start : span.end])


def _letters(length: int, scheme: TagScheme, *, follows_same_label: bool) -> str:
    """The letters of an entity of `length` words."""
    if scheme == "IOB1":
        return ("B" if follows_same_label else "I") + "I" * (length - 1)
    if scheme == "IOB2":
        return "B" + "I" * (length - 1)
    inside = "M" if scheme == "BMES" else "I"
    last, only = ("L", "U") if scheme == "BILOU" else ("E", "S")
    return only if length == 1 else "B" + inside * (length - 2) + last
