"""The markup of the almanac enters, passages leave; errors name the line and column.

A file is a list of passages; a passage is a header, a title, sentences, relations, questions and pairs, in this order.
Lines are checked one by one where possible, so that one run shows all errors of a file (`examine`) and not only the
first (`parse`). The grammar is described in docs/almanac-guide.md.
"""

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeVar

from spanlab.errors import InputError, did_you_mean
from spanlab.samples import passage as inventory
from spanlab.samples.markup import Body, Line, join_sentences, read_line, read_sentence, sentence_lines
from spanlab.samples.passage import Answer, Pair, Passage, Question, Relation

ID = re.compile(r"(?P<language>[a-z]+)-(?P<topic>[a-z]+)-(?P<number>\d\d)")
SECTIONS = {
    "header": 0,
    "title": 1,
    "sentence": 2,
    "key": 2,
    "rel": 3,
    "q": 4,
    "a": 4,
    "not": 4,
    "same": 5,
    "diff": 5,
}

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The passages of a file without errors, and all errors, by line."""

    passages: tuple[Passage, ...]
    problems: tuple[InputError, ...]


@dataclass(frozen=True, kw_only=True)
class _Header:
    """The first line of a passage."""

    id: str
    language: str
    topic: str
    style: str
    split: str
    sentiment: str | None


@cache
def load() -> tuple[Passage, ...]:
    """All shipped passages, in the order of files and lines."""
    passages: dict[str, Passage] = {}
    folder = resources.files("spanlab.samples") / "passages"
    for file in sorted((file for file in folder.iterdir() if file.name.endswith(".txt")), key=lambda file: file.name):
        for passage in parse(file.read_text(encoding="utf-8"), file.name):
            if passage.id in passages:
                cause = f"passage '{passage.id}' is also in another file"
                raise InputError(cause, path=file.name, line=passage.line, fix="give each a number of its own")
            passages[passage.id] = passage
    return tuple(passages.values())


def find(name: str) -> Passage:
    """The shipped passage with this id."""
    passages = {passage.id: passage for passage in load()}
    if name not in passages:
        cause = f"no passage '{name}' in the almanac{did_you_mean(name, passages)}"
        raise InputError(cause, fix="see all with 'spanlab almanac show'")
    return passages[name]


def parse(source: str, path: str | Path | None = None) -> tuple[Passage, ...]:
    """The passages of a file; raises the first error."""
    examination = examine(source, path)
    if examination.problems:
        raise examination.problems[0]
    return examination.passages


def examine(source: str, path: str | Path | None = None) -> Examination:
    """The passages of a file without errors, and every error of the others."""
    problems: list[InputError] = []
    numbered = enumerate(source.removesuffix("\n").split("\n"), start=1)
    lines = [line for line in _collect(numbered, lambda item: read_line(item[1], item[0], path), problems) if line]
    blocks = _blocks(lines, problems)
    if not blocks and not problems:
        problems.append(InputError("no passage in this file", path=path, line=1, fix="start one with '## '"))
    readable = [passage for block in blocks if (passage := _read_passage(block, problems))]
    _check_unique_ids(readable, path, problems)
    problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    headers = [block[0].number for block in blocks]
    faulty = {headers[bisect(headers, problem.line or 0) - 1] for problem in problems} if headers else set()
    passages = tuple(passage for passage in readable if passage.line not in faulty)
    return Examination(passages=passages, problems=tuple(problems))


def _collect(items: Iterable[Item], read: Callable[[Item], Result], problems: list[InputError]) -> list[Result]:
    """The results of `read` on the items; errors are added to `problems`."""
    results = []
    for item in items:
        try:
            results.append(read(item))
        except InputError as problem:
            problems.append(problem)
    return results


def _blocks(lines: Sequence[Line], problems: list[InputError]) -> list[list[Line]]:
    """The lines of every passage; a block starts with its header."""
    blocks: list[list[Line]] = []
    for line in lines:
        if line.kind == "header":
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
        elif line.kind != "blank":
            problems.append(line.error("a line before the first header", "start the passage with '## '"))
    return blocks


def _read_passage(block: Sequence[Line], problems: list[InputError]) -> Passage | None:
    """The passage of a block; None when its header or its text cannot be read."""
    _check_order(block, problems)
    headers = _collect([block[0]], _read_header, problems)
    titles = [line for line in block if line.kind == "title"]
    if len(titles) != 1:
        line = titles[1] if titles else block[0]
        problems.append(line.error(f"{len(titles)} titles", "give the passage one line 'title: …' after its header"))
    if not headers or not titles:
        return None
    header = headers[0]
    bodies = _read_text(block, header, problems)
    if not bodies:
        return None
    body = bodies[0]
    relations = _read_relations(block, body, problems)
    questions = _collect(
        enumerate(group_questions(block), start=1),
        lambda item: read_question(item[1], f"{header.id}-q{item[0]}", body.text, header.language),
        problems,
    )
    pairs = _collect([line for line in block if line.kind in {"same", "diff"}], read_pair, problems)
    _check_numbers(body, relations, problems)
    return Passage(
        id=header.id,
        language=header.language,
        topic=header.topic,
        style=header.style,
        split=header.split,
        sentiment=header.sentiment,
        title=titles[0].value,
        text=body.text,
        sentences=body.sentences,
        mentions=body.mentions,
        relations=relations,
        questions=tuple(questions),
        pairs=tuple(pairs),
        line=block[0].number,
    )


def _check_order(block: Sequence[Line], problems: list[InputError]) -> None:
    reached = "header"
    for line in block:
        if line.kind == "blank":
            continue
        if SECTIONS[line.kind] < SECTIONS[reached]:
            order = "title, sentences, rel, q with a or not, same or diff"
            problems.append(line.error(f"'{line.kind}' after '{reached}'", f"keep the order {order}"))
        else:
            reached = line.kind


def _read_header(line: Line) -> _Header:
    name, *parts = line.value.split(" ")
    identity = ID.fullmatch(name)
    if not identity:
        raise line.error(f"'{name}' is not a passage id", "write language-topic-number, such as en-science-07")
    _check_value(line, "language", identity["language"], inventory.LANGUAGES)
    _check_value(line, "topic", identity["topic"], inventory.TOPICS, offset=identity.start("topic"))
    fields = _header_fields(line, parts, offset=len(name) + 1)
    for key in ("style", "split"):
        if key not in fields:
            raise line.error(f"no {key} in the header", f"add {key}=…")
    style = fields["style"]
    if (style in inventory.STYLES_WITH_SENTIMENT) != ("sentiment" in fields):
        fix = "remove it" if "sentiment" in fields else "add sentiment=" + "|".join(inventory.SENTIMENTS)
        raise line.error(f"a sentiment belongs to reviews and letters, and this is style={style}", fix)
    return _Header(
        id=name,
        language=identity["language"],
        topic=identity["topic"],
        style=style,
        split=fields["split"],
        sentiment=fields.get("sentiment"),
    )


def _header_fields(line: Line, parts: Sequence[str], *, offset: int) -> dict[str, str]:
    allowed = {"style": inventory.STYLES, "split": inventory.SPLITS, "sentiment": inventory.SENTIMENTS}
    fields: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        _check_value(line, "header field", key, tuple(allowed), offset=offset)
        if key in fields:
            raise line.error(f"'{key}' is given twice", "keep one", offset=offset)
        _check_value(line, key, value, allowed[key], offset=offset + len(key) + 1)
        fields[key] = value
        offset += len(part) + 1
    return fields


def _check_value(line: Line, what: str, value: str, known: Sequence[str], *, offset: int = 0) -> None:
    if value not in known:
        cause = f"unknown {what} '{value}'{did_you_mean(value, known)}"
        raise line.error(cause, f"use one of {', '.join(known)}", offset=offset)


def _read_text(block: Sequence[Line], header: _Header, problems: list[InputError]) -> list[Body]:
    """The body of a block, or nothing when a sentence cannot be read."""
    written = sentence_lines(block)
    sentences = _collect(written, read_sentence, problems)
    if not written:
        problems.append(block[0].error("a passage without sentences", "write each on a line, after '- ' or '* '"))
    if not written or len(sentences) < len(written):
        return []
    dialogue = header.style == "dialogue"
    return _collect([sentences], lambda whole: join_sentences(whole, header.language, dialogue=dialogue), problems)


def _read_relations(block: Sequence[Line], body: Body, problems: list[InputError]) -> tuple[Relation, ...]:
    """The relations of a block; each may occur once."""
    seen: set[Relation] = set()

    def read_new(line: Line) -> Relation:
        relation = _relation(line, body)
        if relation in seen:
            raise line.error(f"'{line.value}' occurs twice", "keep one of the two")
        seen.add(relation)
        return relation

    return tuple(_collect([line for line in block if line.kind == "rel"], read_new, problems))


def _relation(line: Line, body: Body) -> Relation:
    parts = line.value.split(" ")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[2].isdecimal()):
        raise line.error(
            f"'{line.value}' is not a relation", "write 'rel: number name number', such as 'rel: 1 born_in 2'"
        )
    label = parts[1]
    _check_value(line, "relation", label, tuple(inventory.RELATIONS), offset=len(parts[0]) + 1)
    relation = Relation(head=int(parts[0]), label=label, tail=int(parts[2]))
    signature = inventory.RELATIONS[label]
    if relation.head == relation.tail:
        raise line.error("a relation of an entity with itself", "name two entities")
    for side, entity, types in (("head", relation.head, signature.heads), ("tail", relation.tail, signature.tails)):
        entity_type = body.types.get(entity)
        offset = 0 if side == "head" else len(line.value) - len(parts[2])
        if entity_type is None:
            cause = f"entity {entity} has no typed mention in the text"
            raise line.error(cause, f"tag it, such as {{{entity}:{types[0]}|…}}", offset=offset)
        if entity_type not in types:
            raise line.error(
                f"the {side} of {label} cannot be {entity_type}", f"it takes {', '.join(types)}", offset=offset
            )
    return relation


def group_questions(block: Sequence[Line]) -> list[list[Line]]:
    """Every question line with the answer lines below it; answers before the first question form a group."""
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


def _find(reply: Line, text: str, language: str) -> Answer:
    starts = list(occurrences(text, reply.value, language))
    if not starts:
        raise reply.error(f"'{reply.value}' is not in the text", "copy the exact words, without brackets")
    if len(starts) > 1 and reply.occurrence is None:
        cause = f"'{reply.value}' occurs {len(starts)} times in the text"
        raise reply.error(cause, f"say which one is meant, such as '{reply.kind}@1: {reply.value}'")
    if (reply.occurrence or 1) > len(starts):
        cause = f"'{reply.value}' occurs {len(starts)} times in the text, not {reply.occurrence}"
        raise reply.error(cause, "count its occurrences again")
    return Answer(start=starts[(reply.occurrence or 1) - 1], text=reply.value)


def occurrences(text: str, wanted: str, language: str) -> Iterator[int]:
    """Where `wanted` occurs in the text: at word boundaries in English, at a word's start in Korean."""
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        opens = language == "zh" or not (text[start - 1 : start].isalnum() and wanted[0].isalnum())
        closes = language != "en" or not (text[end : end + 1].isalnum() and wanted[-1].isalnum())
        if opens and closes:
            yield start
        start = text.find(wanted, start + 1)


def read_pair(line: Line) -> Pair:
    """The two sentences of a `same:` or `diff:` line."""
    sides = line.value.split(" | ")
    if len(sides) != 2 or not all(sides) or "|" in "".join(sides):
        raise line.error("a pair needs two sentences", "separate them by one ' | '")
    if sides[0] == sides[1]:
        raise line.error("the two sentences are the same", "write a real paraphrase, or a sentence that differs")
    return Pair(text_a=sides[0], text_b=sides[1], same=line.kind == "same", line=line.number)


def _check_numbers(body: Body, relations: Sequence[Relation], problems: list[InputError]) -> None:
    """An entity number that is used only once is a mistake."""
    related = {entity for relation in relations for entity in (relation.head, relation.tail)}
    numbers = [mention.entity for mention in body.mentions if mention.entity]
    for entity, (line, offset) in body.first_mentions.items():
        if numbers.count(entity) == 1 and entity not in related:
            cause = f"entity {entity} is mentioned once and in no relation"
            problems.append(line.error(cause, "drop its number, or tag its other mentions", offset=offset))


def _check_unique_ids(passages: Sequence[Passage], path: str | Path | None, problems: list[InputError]) -> None:
    seen: dict[str, int] = {}
    for passage in passages:
        first = seen.setdefault(passage.id, passage.line)
        if first != passage.line:
            cause = f"'{passage.id}' is also the passage of line {first}"
            problems.append(
                InputError(cause, path=path, line=passage.line, column=4, fix="give each a number of its own")
            )
