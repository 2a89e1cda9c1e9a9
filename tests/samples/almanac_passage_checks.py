"""What every passage of the almanac must satisfy by itself, beyond the grammar."""

import re
from collections.abc import Iterator

from spanlab.samples.parse import occurrences
from tests.samples.almanac_findings import Checked, Finding, units

LENGTHS = {"en": (60, 140, "words"), "zh": (90, 260, "characters"), "ko": (40, 110, "eojeol")}
LONGEST_ANSWER = {"en": 12, "zh": 24, "ko": 8}
LEAST = {"entities": 6, "clusters": 1, "relations": 1, "questions": 4, "pairs": 1}
SENTENCES = (4, 16)
SHORTEST_SIDE = {"en": 5, "zh": 6, "ko": 3}
SENTENCE_ENDS = tuple(".!?:,。！？：，") + tuple(end + quote for end in ".!?。！？" for quote in "\"'”’」』）)")
NAME_TYPES = ("PER", "ORG", "LOC", "WORK", "PRODUCT", "EVENT")
CURLY_QUOTES = re.compile("[‘’“”]")
PERSONAL = r"he|him|his|she|her|hers|himself|herself|they|them|their|theirs"
FIRST_AND_SECOND = r"I|me|my|mine|myself|you|your|yours"


def check_passage(checked: Checked) -> Iterator[Finding]:
    """Every problem and note of one passage."""
    yield from _check_size(checked)
    yield from _check_sentences(checked)
    yield from _check_questions(checked)
    yield from _check_pairs(checked)
    yield from _check_names(checked)
    yield from _check_boundaries(checked)
    if checked.passage.language == "en":
        yield from _note_capitals_and_numbers(checked)
        yield from _note_pronouns(checked)


def _check_size(checked: Checked) -> Iterator[Finding]:
    passage = checked.passage
    least, most, unit = LENGTHS[passage.language]
    length = len(passage.text.replace("\n", "")) if passage.language == "zh" else len(passage.text.split())
    if not least <= length <= most:
        yield checked.at_line(passage.line, f"{length} {unit}; write {least} to {most}")
    for layer, wanted in LEAST.items():
        found = len(getattr(passage, layer))
        if found < wanted:
            yield checked.at_line(passage.line, f"{found} {layer}; a passage has at least {wanted}")
    unanswerable = sum(not question.answers for question in passage.questions)
    if not 1 <= unanswerable < len(passage.questions) / 2:
        yield checked.at_line(passage.line, f"{unanswerable} unanswerable questions; write one, or two of five or more")


def _check_sentences(checked: Checked) -> Iterator[Finding]:
    passage = checked.passage
    if not SENTENCES[0] <= len(passage.sentences) <= SENTENCES[1]:
        yield checked.at_line(
            passage.line, f"{len(passage.sentences)} sentences; write {SENTENCES[0]} to {SENTENCES[1]}"
        )
    keys = sum(sentence.key for sentence in passage.sentences)
    if not 1 <= keys <= 3 or keys * 2 > len(passage.sentences):
        yield checked.at_line(passage.line, f"{keys} key sentences; mark one to three, at most half")
    signature = passage.sentences[-1] if passage.style == "letter" else None
    for sentence in passage.sentences:
        if sentence is not signature and not passage.span(sentence).endswith(SENTENCE_ENDS):
            yield checked.at_offset(sentence.end - 1, "the sentence ends without a mark")
    source = [(passage.line + place, line) for place, line in enumerate(_own_lines(checked))]
    for number, line in source:
        if passage.language != "zh" and CURLY_QUOTES.search(line):
            yield checked.at_line(number, "curly quotes; use straight ones")


def _own_lines(checked: Checked) -> tuple[str, ...]:
    start = checked.passage.line - 1
    end = next((n for n in range(start + 1, len(checked.lines)) if checked.lines[n].startswith("## ")), None)
    return checked.lines[start:end]


def _check_questions(checked: Checked) -> Iterator[Finding]:
    passage = checked.passage
    most = LONGEST_ANSWER[passage.language]
    for question in passage.questions:
        if not question.text.endswith(("?", "？")):
            yield checked.at_line(question.line, "the question has no question mark")
        for answer in question.answers or (question.tempting,):
            assert answer is not None
            assert passage.text[answer.start : answer.end] == answer.text
            if not any(s.start <= answer.start and answer.end <= s.end for s in passage.sentences):
                yield checked.at_offset(answer.start, f"the answer '{answer.text}' runs over two sentences")
            if len(units(answer.text, passage.language)) > most:
                yield checked.at_line(question.line, f"the answer '{answer.text}' is longer than {most}")
        for answer in question.answers:
            if next(occurrences(question.text.lower(), answer.text.lower(), passage.language), None) is not None:
                yield checked.at_line(question.line, f"the question holds its own answer '{answer.text}'")


def _check_pairs(checked: Checked) -> Iterator[Finding]:
    least = SHORTEST_SIDE[checked.passage.language]
    for pair in checked.passage.pairs:
        for side in (pair.text_a, pair.text_b):
            if len(units(side, checked.passage.language)) < least:
                yield checked.at_line(pair.line, f"'{side}' is shorter than {least}; write full sentences")
            if side in checked.passage.text:
                yield checked.at_line(pair.line, f"'{side}' stands in the text; say it in other words")


def _check_names(checked: Checked) -> Iterator[Finding]:
    """A name that is an entity in one place is one in every place."""
    passage = checked.passage
    seen: set[str] = set()
    for mention in passage.entities:
        name = passage.span(mention)
        told = mention.label in NAME_TYPES or re.search(r"\d", name)
        if name in seen or not told or len(name) < 2:
            continue
        seen.add(name)
        for start in occurrences(passage.text, name, passage.language):
            end = start + len(name)
            if not any(other.start <= start and end <= other.end for other in passage.entities):
                yield checked.at_offset(start, f"'{name}' is {mention.label} elsewhere and has no type here")


def _check_boundaries(checked: Checked) -> Iterator[Finding]:
    passage = checked.passage
    for mention in passage.mentions if passage.language == "en" else ():
        before, after = passage.text[mention.start - 1 : mention.start], passage.text[mention.end : mention.end + 1]
        if before.isalnum() or after.isalnum():
            yield checked.at_offset(mention.start, f"'{passage.span(mention)}' cuts a word")
        if mention.label in NAME_TYPES and passage.span(mention).startswith("the "):
            yield checked.at_offset(mention.start, f"'{passage.span(mention)}': leave the article outside a name")


def _note_capitals_and_numbers(checked: Checked) -> Iterator[Finding]:
    passage = checked.passage
    starts = {sentence.start for sentence in passage.sentences}
    for found in re.finditer(r"\b(?:[A-Z]\w+|\d[\d.,]*\b)", passage.text):
        opening = found.start() in starts or passage.text[: found.start()].endswith((": ", '"'))
        if found[0][0].isalpha() and opening:
            continue
        if not any(entity.start <= found.start() and found.end() <= entity.end for entity in passage.entities):
            yield checked.at_offset(found.start(), f"'{found[0]}' is in no entity", note=True)


def _note_pronouns(checked: Checked) -> Iterator[Finding]:
    passage = checked.passage
    personal = PERSONAL + ("|" + FIRST_AND_SECOND if passage.style in {"dialogue", "letter"} else "")
    referring = {(mention.start, mention.end) for mention in passage.mentions if mention.entity}
    for found in re.finditer(rf"\b(?:{personal})\b", passage.text, re.IGNORECASE):
        if found.span() not in referring:
            yield checked.at_offset(found.start(), f"'{found[0]}' refers to nobody", note=True)
