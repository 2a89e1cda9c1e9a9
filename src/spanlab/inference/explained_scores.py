"""The number behind an answer: which of a head's outputs decided it, as something that has a gradient.

A task, the samples of one example, the head's outputs for them and the example's result enter. What leaves is an
`Explained`: a weighted sum of logits of samples. Logits, not probabilities, which flatten where the model is certain.

| task | the answer | its score |
|---|---|---|
| classification | a label, by default the predicted one | its logit, the mean of all windows |
| similarity | a label, or the similarity | its logit, or the number |
| qa | one of the n best | the score of its span; without an answer, that of the null position |
| ner | one of the entities | the mean logit of its tags, or the logit of its label as a span |
| relation | one of the relations | its logit |
| coref | one of the mentions | the score of its link to the nearest mention before it in its cluster |
| summarisation | one of the sentences | its logit |

An answer is chosen by its index in the result, a label by its name. Generation has no single score.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.base import AnyTask
from spanlab.tasks.coref.data import CorefExample, CorefResult
from spanlab.tasks.head import Head
from spanlab.tasks.heads import AuxiliaryLMHead
from spanlab.tasks.ner.data import Entity, NerResult
from spanlab.tasks.qa.data import QaResult
from spanlab.tasks.qa.decode import WindowAnswers
from spanlab.tasks.qa.pointer_head import PointerHead
from spanlab.tasks.relation.data import RelationResult
from spanlab.tasks.relation.joint_head import JointHead
from spanlab.tasks.relation.pairs_head import PairHead
from spanlab.tasks.sample import Sample
from spanlab.tasks.summarisation.data import SummaryResult
from spanlab.tasks.windows import Windower

Score = Callable[[Any], Tensor]
"""From the logits of a head for a batch of one sample to a number."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A term of the score of an answer."""

    sample: Sample
    weight: float
    score: Score


@dataclass(frozen=True, kw_only=True)
class Explained:
    """An answer in words, and the terms that its score is the sum of."""

    answer: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One example with everything that prediction made of it."""

    task: AnyTask
    head: Head
    windower: Windower
    example: Any
    samples: Sequence[Sample]
    outputs: Sequence[Any]
    result: Any


def explain(predicted: Predicted, answer: int | str | None) -> Explained:
    """The score of an answer; None: of the first, or of the predicted label."""
    if predicted.head.generates:
        raise InputError("a generated text has no single score that could be attributed", fix="use another task")
    if not predicted.samples:
        raise InputError("the input has no text", fix="give a text")
    by_result: dict[type, Callable[[Predicted, int], Explained]] = {
        QaResult: _answer,
        NerResult: _entity,
        RelationResult: _relation,
        CorefResult: _mention,
        SummaryResult: _sentence,
    }
    find = by_result.get(type(predicted.result))
    if find is None:
        return _label(predicted, answer)
    if isinstance(answer, str):
        raise InputError(f"answer {answer!r} is a label; the task {predicted.task.name} takes an index", fix="give 0")
    return find(predicted, answer or 0)


def _choose(items: Sequence[Any], index: int, name: str) -> Any:  # noqa: ANN401 (an item of any result)
    if not items:
        raise InputError(f"the result has no {name} that could be explained", fix="use another text")
    if not 0 <= index < len(items):
        raise InputError(f"there is no {name} {index}; the result has {len(items)}", fix="count from 0")
    return items[index]


# ---- labels and numbers


def _label(predicted: Predicted, answer: int | str | None) -> Explained:
    """The logit of a label, or the number where there are no labels, averaged over the windows."""
    labels, result = predicted.task.fitted.labels, predicted.result
    auxiliary = isinstance(predicted.head, AuxiliaryLMHead)
    index, name = 0, "similarity"
    if labels:
        scores = result.scores
        best = getattr(result, "label", None) or max(scores, key=scores.__getitem__)
        name = best if answer is None else str(answer)
        if name not in labels:
            raise InputError(f"no label '{name}'{did_you_mean(name, labels)}", fix=f"use one of {', '.join(labels)}")
        index = labels.index(name)

    def score(logits: Any) -> Tensor:  # noqa: ANN401
        first: Tensor = (logits[0] if auxiliary else logits)[0]
        return first if first.dim() == 0 else first[index]

    weight = 1 / len(predicted.samples)
    parts = (Part(sample=sample, weight=weight, score=score) for sample in predicted.samples)
    return Explained(answer=name, parts=tuple(parts))


# ---- spans of a text


def _answer(predicted: Predicted, index: int) -> Explained:
    """The span's score in the window where it is highest; of no answer, the lowest score of all windows."""
    result: QaResult = predicted.result
    chosen = _choose(result.nbest or (result,), index, "answer")
    pointers = isinstance(predicted.head, PointerHead)
    if chosen.start is None:
        nulls = [float(output.null) for output in predicted.outputs]
        sample = predicted.samples[int(np.argmin(nulls))]
        null = int(sample.features["null"][0])
        score: Score = (lambda ends: ends[null].sum()) if pointers else (lambda scores: scores[1][0])
        return Explained(answer="", parts=(Part(sample=sample, weight=1.0, score=score),))
    scored = [
        (found[0], sample, *found[1:])
        for sample, output in zip(predicted.samples, predicted.outputs, strict=True)
        if int(sample.features["document"][0]) == chosen.document
        for found in _find_span(sample, output, chosen.start, chosen.end)
    ]
    _, sample, first, last = max(scored, key=lambda found: found[0])
    score = (
        (lambda ends: ends[first, 0] + ends[last, 1]) if pointers else (lambda scores: scores[0][first, last - first])
    )
    return Explained(answer=chosen.answer, parts=(Part(sample=sample, weight=1.0, score=score),))


def _find_span(sample: Sample, output: WindowAnswers, start: int, end: int) -> list[tuple[float, int, int]]:
    """Score, first and last position of a span of characters in a window, if it is among the window's best."""
    begin = int(sample.features["begin"][0])
    starts, ends = sample.features["starts"], sample.features["ends"]
    return [
        (float(score), int(first), int(last))
        for score, first, last in zip(output.scores, output.first, output.last, strict=True)
        if int(starts[first - begin]) == start and int(ends[last - begin]) == end
    ]


def _entity(predicted: Predicted, index: int) -> Explained:
    entity: Entity = _choose(predicted.result.spans, index, "entity")
    label = predicted.task.fitted.entity_labels.index(entity.label)
    name = f"{entity.text} ({entity.label})"
    if predicted.task.config.head == "tag":
        return Explained(answer=name, parts=_tags(predicted.samples, entity, label))
    for sample in predicted.samples:
        for span in _spans_at(sample, entity):
            return Explained(answer=name, parts=(_one_logit(sample, span, label + 1),))
    raise AssertionError("a predicted entity is a candidate")


def _spans_at(sample: Sample, entity: Entity) -> list[int]:
    starts, ends = sample.features["starts"], sample.features["ends"]
    found: list[int] = np.flatnonzero((starts == entity.start) & (ends == entity.end)).tolist()
    return found


def _one_logit(sample: Sample, row: int, column: int) -> Part:
    return Part(sample=sample, weight=1.0, score=lambda logits: logits[row, column])


def _tags(samples: Sequence[Sample], entity: Entity, label: int) -> tuple[Part, ...]:
    """The mean logit of an entity's tags; its units may be in two windows."""
    units = []
    for sample in samples:
        starts, ends = (sample.features[name].astype(np.int64) for name in ("starts", "ends"))
        units += [
            (sample, unit, 1 + 2 * label if starts[unit] == entity.start else 2 + 2 * label)
            for unit in np.flatnonzero((starts >= entity.start) & (ends <= entity.end)).tolist()
        ]
    return tuple(replace(_one_logit(*unit), weight=1 / len(units)) for unit in units)


def _sentence(predicted: Predicted, index: int) -> Explained:
    sentence = _choose(predicted.result.sentences, index, "sentence")
    (sample,) = predicted.samples
    row = int(np.flatnonzero(sample.features["sentences"] == sentence.index)[0])
    text = predicted.result.text[sentence.start : sentence.end]
    return Explained(answer=text, parts=(Part(sample=sample, weight=1.0, score=lambda logits: logits[row]),))


# ---- pairs of spans


def _relation(predicted: Predicted, index: int) -> Explained:
    """The relation's logit for its pair; of several windows with both entities, in the one with the highest score."""
    result: RelationResult = predicted.result
    relation = _choose(result.relations, index, "relation")
    head, tail = (result.entities[end] for end in (relation.head, relation.tail))
    label = predicted.task.fitted.labels.index(relation.label)
    if isinstance(predicted.head, JointHead):
        part = _joint_pair(predicted, head, tail, label)
    elif isinstance(predicted.head, PairHead):
        part = _given_pair(predicted, relation.head, relation.tail, label)
    else:
        part = _marked_pair(predicted, relation.head, relation.tail)
    return Explained(answer=f"{head.text} {relation.label} {tail.text}", parts=(part,))


def _joint_pair(predicted: Predicted, head: Entity, tail: Entity, label: int) -> Part:
    """The pair given as a target, so that it is scored whatever entities would be predicted."""
    best: tuple[float, Part] | None = None
    for sample, output in zip(predicted.samples, predicted.outputs, strict=True):
        spans = [_spans_at(sample, entity) for entity in (head, tail)]
        if not all(spans) or output.entities is None:
            continue
        first, second = (found[0] for found in spans)
        rows = np.flatnonzero((output.heads == first) & (output.tails == second))
        value = float(output.scores[rows[0], label]) if len(rows) else -1.0
        labels = np.zeros(len(sample.features["starts"]), np.int64)
        labels[output.entities.spans] = output.entities.labels
        targets = {
            "labels": labels,
            "heads": np.array([first], np.int64),
            "tails": np.array([second], np.int64),
            "relations": np.zeros((1, output.scores.shape[1]), np.float32),
        }
        part = Part(
            sample=replace(sample, targets=targets), weight=1.0, score=lambda logits: logits.relations_PR[0, label]
        )
        best = (value, part) if best is None or value > best[0] else best
    assert best is not None, "a predicted relation is in some window"
    return best[1]


def _given_pair(predicted: Predicted, head: int, tail: int, label: int) -> Part:
    scored = []
    for sample, output in zip(predicted.samples, predicted.outputs, strict=True):
        entities = sample.features["entities"]
        for row in np.flatnonzero((entities[output.heads] == head) & (entities[output.tails] == tail)).tolist():
            scored.append((float(output.scores[row, label]), _one_logit(sample, row, label)))
    return max(scored, key=lambda found: found[0])[1]


def _marked_pair(predicted: Predicted, head: int, tail: int) -> Part:
    for sample, logits in zip(predicted.samples, predicted.outputs, strict=True):
        pair = sample.features["pair"][0].tolist()
        chosen = int(logits.argmax())
        if chosen and pair in ([head, tail], [tail, head]):
            directed = predicted.task.config.direction == "marker"
            if not directed or pair == [head, tail]:
                return _one_logit(sample, 0, chosen)
    raise AssertionError("a predicted relation is that of a marked pair")


def _mention(predicted: Predicted, index: int) -> Explained:
    """The link of a mention to the nearest one before it in its cluster; of the first, that of the second to it.

    Both are given to the head as its only mentions, since which others are kept changes with the input. A mention alone
    in its cluster has its score of being a mention.
    """
    result: CorefResult = predicted.result
    mention = _choose(result.mentions, index, "mention")
    cluster = list(result.clusters[mention.cluster])
    place = cluster.index((mention.start, mention.end))
    pair = sorted({cluster[max(0, place - 1)], cluster[place]}) if place else sorted(cluster[:2])
    example: CorefExample = replace(predicted.example, mentions=tuple(pair))
    (sample,) = predicted.task.encode([example], predicted.windower, labelled=False)
    text = predicted.example.text
    names = [text[start:end] for start, end in pair]
    if len(pair) == 1:
        part = Part(sample=sample, weight=1.0, score=lambda logits: logits[0].candidate_C[0])
        return Explained(answer=names[0], parts=(part,))

    def score(logits: Any) -> Tensor:  # noqa: ANN401
        antecedents = logits[0].antecedents
        rank = int((antecedents.valid_MK[1] & (antecedents.index_MK[1] == 0)).nonzero()[0, 0])
        link: Tensor = logits[0].score_MK[1, rank]
        return link

    return Explained(answer=f"{names[1]} → {names[0]}", parts=(Part(sample=sample, weight=1.0, score=score),))
