"""Coreference clusters: spans in JSON lines, brackets by the token in the columns of CoNLL-2012."""

from collections.abc import Sequence
from itertools import groupby

from spanlab.text.almanac.exports.ner import outermost
from spanlab.text.almanac.exports.records import Record
from spanlab.text.almanac.exports.tokens import Span, token_range, tokenize
from spanlab.text.almanac.passage import Mention, Passage, Sentence

# What CoNLL-2012 writes where a layer is missing: part of speech, then lemma, frameset and sense.
NO_PART_OF_SPEECH = "XX"
NOTHING = "-"


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
    speaker = (sentence.speaker or NOTHING).replace(" ", "_")
    layers = zip(tokens, _parse(tokens), _names(passage, sentence, tokens), _chains(passage, tokens), strict=True)
    rows = []
    for number, ((start, end), parse, name, chain) in enumerate(layers):
        word = passage.text[start:end]
        row = [passage.id, "0", str(number), word, NO_PART_OF_SPEECH, parse, NOTHING, NOTHING, NOTHING]
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
    """Brackets with the number of the cluster: what opens before what closes, outer before inner."""
    opened: list[list[str]] = [[] for _ in tokens]
    closed: list[list[str]] = [[] for _ in tokens]
    for mention in _cluster_mentions(passage, tokens):
        first, last = token_range(passage, tokens, mention)
        if first == last:
            opened[first].append(f"({mention.entity})")
        else:
            opened[first].append(f"({mention.entity}")
            closed[last].insert(0, f"{mention.entity})")
    return ["|".join([*opens, *closes]) or NOTHING for opens, closes in zip(opened, closed, strict=True)]


def _cluster_mentions(passage: Passage, tokens: list[Span]) -> list[Mention]:
    inside = [mention for cluster in passage.clusters for mention in cluster
              if tokens[0][0] <= mention.start < tokens[-1][1]]  # fmt: skip
    return sorted(inside, key=lambda mention: (mention.start, -mention.end))
