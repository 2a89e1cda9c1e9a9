"""Coreference clusters: spans in JSON lines, brackets by the token in the columns of CoNLL-2012."""

from collections.abc import Sequence
from itertools import groupby

from spanlab.samples.exports.ner import outermost
from spanlab.samples.exports.records import Record
from spanlab.samples.exports.tokens import Span, token_range, tokenize
from spanlab.samples.passage import Passage, Sentence
from spanlab.text.conll_coref import NONE, chain_cells

# What CoNLL-2012 writes where there are no parts of speech; lemma, frameset and sense are NONE.
NO_PART_OF_SPEECH = "XX"


def clusters(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its clusters, and in a dialogue with its speakers as `[start, end, name]` by the turn."""
    records: list[Record] = []
    for passage in passages:
        record: dict[str, object] = {
            "id": passage.id,
            "text": passage.text,
            "clusters": [[[mention.start, mention.end] for mention in cluster] for cluster in passage.clusters],
        }
        if passage.style == "dialogue":
            record["speakers"] = _turns(passage)
        records.append(record)
    return records


def _turns(passage: Passage) -> list[tuple[int, int, str | None]]:
    turns = []
    for speaker, sentences in groupby(passage.sentences, key=lambda sentence: sentence.speaker):
        whole = list(sentences)
        turns.append((whole[0].start, whole[-1].end, speaker))
    return turns


def conll_2012(passages: Sequence[Passage]) -> str:
    """Twelve columns a token, a blank line after each sentence, a document a passage."""
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
    layers = zip(tokens, _parse(tokens), _names(passage, sentence, tokens), _chains(passage, tokens), strict=True)
    rows = []
    for number, ((start, end), parse, name, chain) in enumerate(layers):
        word = passage.text[start:end]
        row = [passage.id, "0", str(number), word, NO_PART_OF_SPEECH, parse, NONE, NONE, NONE]
        rows.append("\t".join([*row, speaker, name, chain]))
    return rows


def _parse(tokens: list[Span]) -> list[str]:
    """The bracketing of an unparsed sentence: everything under one node."""
    cells = ["*"] * len(tokens)
    cells[0] = "(TOP" + cells[0]
    cells[-1] += ")"
    return cells


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
