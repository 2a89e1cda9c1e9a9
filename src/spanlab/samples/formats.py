"""The almanac in standard file formats: JSON lines and tables, CoNLL columns, SQuAD 2.0, CoNLL-2012, SemEval.

What enters is passages; what leaves is the text of a file. A table has a header and no quoting, as in GLUE: a value is
everything between two tabs, and a line feed inside a text becomes a space; JSON lines keep it.

In column formats, English is split as in published files: clitics and hyphens apart, numbers and abbreviations whole.
In Chinese and Korean every character is a token: entities end inside an eojeol, before its particle, and no segmenter
would split there reliably. Columns cannot nest, so they have the outermost entities only.

A relation of the almanac holds between two entities, however often each is mentioned. Files need two spans, so it is
written with one mention of each: the nearest pair in one sentence, else a mention inside the other ("Berlin Marathon"),
else the nearest of all.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import product

from spanlab.errors import InputError
from spanlab.samples.markup import SENTENCE_SEPARATORS
from spanlab.samples.passage import Answer, Mention, Passage, Question, Relation, Sentence
from spanlab.text.conll_coref import NONE, chain_cells
from spanlab.text.tag_schemes import spans_to_tags

Record = Mapping[str, object]
Span = tuple[int, int]

_NO_PART_OF_SPEECH = "XX"
"""As CoNLL-2012 writes it; lemma, frameset and sense are NONE."""
_ENGLISH_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)+"  # 3.5, 12,000, 9:30
    r"|(?:[A-Za-z]\.){2,}"  # a.m., U.S.
    r"|[^\W_]+?(?=n't\b)|n't\b"  # do n't
    r"|'(?:s|m|d|re|ve|ll)\b"  # Ada 's
    r"|[^\W_]+(?:'(?!(?:s|m|d|re|ve|ll)\b)[^\W_]+)*"  # O'Brien
    r"|\S"
)
_CHARACTER = re.compile(r"\S")


def json_lines(records: Sequence[Record]) -> str:
    """One JSON object per line."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(records: Sequence[Record]) -> str:
    """A header with the keys of the records, then a line for each."""
    rows = [list(records[0]), *([str(value) for value in record.values()] for record in records)]
    return "".join("\t".join(value.replace("\n", " ") for value in row) + "\n" for row in rows)


def summaries(passages: Sequence[Passage]) -> str:
    """JSON lines of texts, each with its key sentences joined as the summary."""
    records = []
    for passage in passages:
        key_sentences = [passage.span(sentence) for sentence in passage.sentences if sentence.key]
        summary = SENTENCE_SEPARATORS[passage.language].join(key_sentences)
        records.append({"id": passage.id, "text": passage.text, "summary": summary})
    return json_lines(records)


def squad(passages: Sequence[Passage]) -> str:
    """SQuAD 2.0: an article per passage; the tempting wrong span of an unanswerable question is a plausible answer."""
    articles = [
        {
            "title": passage.title,
            "paragraphs": [
                {"context": passage.text, "qas": [_squad_question(question) for question in passage.questions]}
            ],
        }
        for passage in passages
    ]
    return json.dumps({"version": "v2.0", "data": articles}, ensure_ascii=False, indent=1) + "\n"


def _squad_question(question: Question) -> Record:
    record: dict[str, object] = {
        "id": question.id,
        "question": question.text,
        "is_impossible": not question.answers,
        "answers": [_squad_answer(answer) for answer in question.answers],
    }
    if question.tempting:
        record["plausible_answers"] = [_squad_answer(question.tempting)]
    return record


def _squad_answer(answer: Answer) -> Record:
    return {"text": answer.text, "answer_start": answer.start}


def tokenize(passage: Passage, sentence: Sentence) -> list[Span]:
    """The tokens of a sentence, as offsets of the passage's text."""
    pattern = _ENGLISH_TOKEN if passage.language == "en" else _CHARACTER
    return [match.span() for match in pattern.finditer(passage.text, sentence.start, sentence.end)]


def token_range(passage: Passage, tokens: list[Span], mention: Mention) -> Span:
    """The indices of the first and the last token of a mention."""
    starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
    if mention.start not in starts or mention.end not in ends:
        cause = f"'{passage.span(mention)}' starts or ends inside a token"
        raise InputError(f"{passage.id}: {cause}", fix="mark whole words, or export JSON lines")
    return starts.index(mention.start), ends.index(mention.end)


def outermost(passage: Passage, sentence: Sentence) -> list[Mention]:
    """The entities of a sentence that are inside no other entity."""
    kept: list[Mention] = []
    for entity in passage.entities:
        inside = sentence.start <= entity.start < sentence.end
        if inside and (not kept or entity.start >= kept[-1].end):
            kept.append(entity)
    return kept


def conll(passages: Sequence[Passage]) -> str:
    """CoNLL columns, word and IOB2 tag: a `-DOCSTART-` before each passage, a blank line after each sentence."""
    lines = []
    for passage in passages:
        lines += ["-DOCSTART- O", ""]
        for sentence in passage.sentences:
            tokens = tokenize(passage, sentence)
            spans = []
            for entity in outermost(passage, sentence):
                first, last = token_range(passage, tokens, entity)
                spans.append((first, last + 1, entity.label or ""))
            tags = spans_to_tags(spans, len(tokens), "IOB2")
            words = (passage.text[start:end] for start, end in tokens)
            lines += [*(f"{word} {tag}" for word, tag in zip(words, tags, strict=True)), ""]
    return "\n".join(lines) + "\n"


def conll_2012(passages: Sequence[Passage]) -> str:
    """Twelve columns per token, a blank line after each sentence, a document per passage."""
    lines = []
    for passage in passages:
        lines.append(f"#begin document ({passage.id}); part 000")
        for sentence in passage.sentences:
            lines += [*_rows(passage, sentence), ""]
        lines.append("#end document")
    return "\n".join(lines) + "\n"


def _rows(passage: Passage, sentence: Sentence) -> list[str]:
    tokens = tokenize(passage, sentence)
    speaker = (sentence.speaker or NONE).replace(" ", "_")
    parses = ["*"] * len(tokens)  # an unparsed sentence: everything under one node
    parses[0] = "(TOP" + parses[0]
    parses[-1] += ")"
    layers = zip(tokens, parses, _names(passage, sentence, tokens), _chains(passage, tokens), strict=True)
    rows = []
    for index, ((start, end), parse, name, chain) in enumerate(layers):
        word = passage.text[start:end]
        row = [passage.id, "0", str(index), word, _NO_PART_OF_SPEECH, parse, NONE, NONE, NONE]
        rows.append("\t".join([*row, speaker, name, chain]))
    return rows


def _names(passage: Passage, sentence: Sentence, tokens: list[Span]) -> list[str]:
    cells = ["*"] * len(tokens)
    for entity in outermost(passage, sentence):
        first, last = token_range(passage, tokens, entity)
        cells[first] = f"({entity.label}" + ("" if first == last else "*")
        cells[last] += ")"
    return cells


def _chains(passage: Passage, tokens: list[Span]) -> list[str]:
    mentions = []
    for mention in (mention for cluster in passage.clusters for mention in cluster):
        if tokens[0][0] <= mention.start < tokens[-1][1]:
            first, last = token_range(passage, tokens, mention)
            mentions.append((first, last + 1, mention.entity))
    return chain_cells(mentions, len(tokens))


def semeval(passages: Sequence[Passage]) -> str:
    """SemEval-2010 task 8: each relation as a numbered quotation with `<e1>` and `<e2>`, its label with direction."""
    blocks: list[str] = []
    for passage in passages:
        for relation in passage.relations:
            pair = nearest_mentions(passage, relation)
            direction = "e1,e2" if _order(pair[0]) < _order(pair[1]) else "e2,e1"
            quotation = _quote(passage, *sorted(pair, key=_order))
            number = len(blocks) + 1
            blocks.append(f'{number}\t"{quotation}"\n{relation.label}({direction})\nComment: {passage.id}\n')
    return "\n".join(blocks)


def nearest_mentions(passage: Passage, relation: Relation) -> tuple[Mention, Mention]:
    """The typed mentions of head and tail that express the relation; of equals, the first in the text."""
    heads, tails = (
        [mention for mention in passage.mentions_of(entity) if mention.label]
        for entity in (relation.head, relation.tail)
    )

    def distance(pair: tuple[Mention, Mention]) -> tuple[int, int, int, int]:
        first, second = sorted(pair, key=_order)
        nested = second.end <= first.end
        together = any(s.start <= first.start and second.end <= s.end for s in passage.sentences)
        rank = 1 if nested else 0 if together else 2
        return rank, second.start - first.end, pair[0].start, pair[1].start

    return min(product(heads, tails), key=distance)


def _order(mention: Mention) -> tuple[int, int]:
    return mention.start, -mention.end


def _quote(passage: Passage, first: Mention, second: Mention) -> str:
    """The sentences from the first mention to the second, on one line, with both marked (nested where they nest)."""
    inside = [s for s in passage.sentences if s.end > first.start and s.start < max(first.end, second.end)]
    start, end = inside[0].start, inside[-1].end
    marks = [(first.start, "<e1>"), (first.end, "</e1>"), (second.start, "<e2>"), (second.end, "</e2>")]
    if second.end <= first.end:
        marks = [marks[0], *marks[2:], marks[1]]
    text, last = "", start
    for position, mark in marks:
        text += passage.text[last:position] + mark
        last = position
    return (text + passage.text[last:end]).replace("\n", " ")
