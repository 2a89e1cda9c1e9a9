"""A model that gives one answer to everything is told from one that does its task, whatever the task."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from spanlab.finetuning.baselines import compare_to_baseline
from spanlab.tasks.classification import ClassificationExample, ClassificationResult, LabelSetResult
from spanlab.tasks.coref.data import CorefResult
from spanlab.tasks.generation.task import GenerationResult
from spanlab.tasks.ner.data import NerResult
from spanlab.tasks.qa.data import QaResult
from spanlab.tasks.relation.data import RelationResult
from spanlab.tasks.result import Scores
from spanlab.tasks.similarity import PairLabelResult, SimilarityExample, SimilarityResult


def labels(*names: str) -> list[Any]:
    return [ClassificationResult(id="", label=name, score=1.0) for name in names]


def texts(*names: str) -> list[Any]:
    return [ClassificationExample(id=None, text="", labels=(name,)) for name in names]


def pairs(*names: str) -> list[Any]:
    return [SimilarityExample(id=None, text_a="", text_b="", label=name) for name in names]


def pair_labels(*names: str) -> list[Any]:
    return [PairLabelResult(id="", label=name) for name in names]


def gold(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def answer(text: str) -> QaResult:
    return QaResult(id="", answer=text, start=None, end=None, score=0.0, no_answer=not text)


def entities(*spans: Any) -> NerResult:
    return NerResult(id="", spans=spans, source="")


def relations(*found: Any) -> RelationResult:
    return RelationResult(id="", entities=(), relations=found, source="")


def clusters(*found: Any) -> CorefResult:
    return CorefResult(id="", clusters=found, cluster_scores=(), mentions=(), source="")


def sets(*found: tuple[str, ...]) -> list[Any]:
    return [LabelSetResult(id="", labels=labels) for labels in found]


def generated(*found: str) -> list[Any]:
    return [GenerationResult(id="", text=text) for text in found]


SIMILAR = [SimilarityResult(id="", score=0.5)] * 2
ANSWERS, NONE = gold(answers=("x",)), gold(answers=())

CASES: dict[str, tuple[list[Any], list[Any], dict[str, float], str | None]] = {
    "one label": (texts("a", "b", "b"), labels("b", "b", "b"), {"accuracy": 66.7}, "it predicts 'b' for every example"),
    "below the majority": (
        texts("a", "b", "b"),
        labels("b", "a", "b"),
        {"accuracy": 33.3},
        "its accuracy of 33.3 is no better than 'b' for every example, 66.7",
    ),
    "good labels": (texts("a", "b", "b"), labels("a", "b", "b"), {"accuracy": 100.0}, None),
    "one gold label": (texts("a", "a"), labels("a", "a"), {"accuracy": 100.0}, None),
    "one pair label": (pairs("s", "d"), pair_labels("s", "s"), {"accuracy": 50.0}, "it predicts 's' for every example"),
    "no label sets": (
        [gold(labels=("a",)), gold(labels=())],
        sets((), ()),
        {},
        "it predicts no label for every example",
    ),
    "label sets": ([gold(labels=("a",)), gold(labels=())], sets(("a",), ()), {}, None),
    "constant similarity": ([], SIMILAR, {"spearman": math.nan}, "its scores are unrelated to those of dev"),
    "similarity": ([], SIMILAR, {"spearman": 0.7}, None),
    "no entity": ([gold(spans=(1,))], [entities()], {"f1": 0.0}, "it predicts no entity at all"),
    "no entity, rightly": ([gold(spans=())], [entities()], {"f1": 0.0}, None),
    "entities": ([gold(spans=(1,))], [entities(1)], {"f1": 50.0}, None),
    "no relation": ([gold(relations=(1,))], [relations()], {}, "it predicts no relation at all"),
    "relations": ([gold(relations=(1,))], [relations(1)], {}, None),
    "no cluster": ([gold(clusters=(1,))], [clusters()], {}, "it predicts no cluster at all"),
    "clusters": ([gold(clusters=(1,))], [clusters(1)], {}, None),
    "no answers": ([ANSWERS, NONE], [answer(""), answer("")], {"f1": 50.0}, "it answers no question at all"),
    "answers as bad as none": (
        [ANSWERS, NONE],
        [answer("y"), answer("")],
        {"f1": 50.0},
        "its F1 of 50.0 is no better than 'no answer' to every question, 50.0",
    ),
    "answers": ([ANSWERS, NONE], [answer("x"), answer("")], {"f1": 100.0}, None),
    "only unanswerable": ([NONE, NONE], [answer(""), answer("")], {"f1": 100.0}, None),
    "one text": ([], generated("a", "a"), {}, "it generates the same text for every input"),
    "text": ([], generated("a", "b"), {}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_compared_with_one_answer_to_everything(name: str) -> None:
    examples, results, metrics, remark = CASES[name]
    scores = Scores(task="", count=len(results), metrics=metrics)
    assert compare_to_baseline(examples, results, scores) == remark
