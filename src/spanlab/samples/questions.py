"""Questions with their answers, and pairs of sentences.

An answer is the exact string of the text. Where the string stands there more than once the markup says which one is
meant (`a@2: Paris`), so that no answer points at a place that does not support it.
"""

from collections.abc import Iterator, Sequence

from spanlab.samples.lines import Line
from spanlab.samples.passage import Answer, Pair, Question


def group_questions(block: Sequence[Line]) -> list[list[Line]]:
    """Every question line with the answer lines under it; answers before any question make a group of their own."""
    groups: list[list[Line]] = []
    for line in block:
        if line.kind == "q" or (line.kind in {"a", "not"} and not groups):
            groups.append([line])
        elif line.kind in {"a", "not"}:
            groups[-1].append(line)
    return groups


def read_question(group: Sequence[Line], name: str, text: str, language: str) -> Question:
    """The question of a group, its answers found in the text."""
    question, *replies = group
    if question.kind != "q":
        raise question.error("an answer without a question", "write 'q: …' above it")
    kinds = [reply.kind for reply in replies]
    if not kinds or ("not" in kinds and len(kinds) > 1):
        fix = "write 'a: …' lines under it, or one 'not: …' with a tempting wrong span if the text does not answer"
        raise question.error("a question needs answers, or one 'not:'", fix)
    spans = [_find(reply, text, language) for reply in replies]
    if len(set(spans)) != len(spans):
        raise question.error("the same answer twice", "keep one")
    tempting = spans[0] if kinds == ["not"] else None
    answers = () if tempting else tuple(spans)
    return Question(id=name, text=question.value, answers=answers, tempting=tempting, line=question.number)


def occurrences(text: str, wanted: str, language: str) -> Iterator[int]:
    """Where `wanted` stands in the text: at word boundaries in English, at a word's start in Korean."""
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        opens = language == "zh" or not (text[start - 1 : start].isalnum() and wanted[0].isalnum())
        closes = language != "en" or not (text[end : end + 1].isalnum() and wanted[-1].isalnum())
        if opens and closes:
            yield start
        start = text.find(wanted, start + 1)


def _find(reply: Line, text: str, language: str) -> Answer:
    starts = list(occurrences(text, reply.value, language))
    if not starts:
        raise reply.error(f"'{reply.value}' does not stand in the text", "copy the exact words, without brackets")
    if len(starts) > 1 and reply.occurrence is None:
        cause = f"'{reply.value}' stands {len(starts)} times in the text"
        raise reply.error(cause, f"say which one is meant, such as '{reply.kind}@1: {reply.value}'")
    if (reply.occurrence or 1) > len(starts):
        cause = f"'{reply.value}' stands {len(starts)} times in the text, not {reply.occurrence}"
        raise reply.error(cause, "count its occurrences again")
    return Answer(start=starts[(reply.occurrence or 1) - 1], text=reply.value)


def read_pair(line: Line) -> Pair:
    """The two sentences of a `same:` or `diff:` line."""
    sides = line.value.split(" | ")
    if len(sides) != 2 or not all(sides) or "|" in "".join(sides):
        raise line.error("a pair needs two sentences", "part them by one ' | '")
    if sides[0] == sides[1]:
        raise line.error("the two sentences are one", "write a real paraphrase, or a sentence that differs")
    return Pair(text_a=sides[0], text_b=sides[1], same=line.kind == "same", line=line.number)
