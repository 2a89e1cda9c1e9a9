"""Whether a model is better than guessing: compares dev results with one answer to everything.

Examples, results and their scores enter; a remark in words leaves, or None. A training that fails often ends this way,
with a score that looks respectable: on SQuAD 2.0, "no answer" to every question scores 50.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from spanlab.tasks.classification import ClassificationExample, ClassificationResult, LabelSetResult
from spanlab.tasks.coref.data import CorefResult
from spanlab.tasks.generation.task import GenerationResult
from spanlab.tasks.ner.data import NerResult
from spanlab.tasks.qa.data import QaResult
from spanlab.tasks.relation.data import RelationResult
from spanlab.tasks.result import Result, Scores
from spanlab.tasks.similarity import PairLabelResult, SimilarityExample, SimilarityResult

Comparison = Callable[[Sequence[Any], Sequence[Any], Scores], str | None]
_UNRELATED = 0.05
"""A rank correlation below this is none."""


def compare_to_baseline(examples: Sequence[Any], results: Sequence[Result], scores: Scores) -> str | None:
    """What the model does instead of the task, such as "it predicts no entity at all"; None if it does the task."""
    comparison = _COMPARISONS.get(type(results[0]))
    return None if comparison is None else comparison(examples, results, scores)


def _gold_label(example: ClassificationExample | SimilarityExample) -> str | None:
    return example.label if isinstance(example, SimilarityExample) else example.labels[0]


def _one_label(examples: Sequence[Any], results: Sequence[Any], scores: Scores) -> str | None:
    gold = Counter(map(_gold_label, examples))
    predicted = {result.label for result in results}
    if len(gold) < 2:
        return None
    label, count = gold.most_common(1)[0]
    share, accuracy = 100 * count / len(examples), scores.metrics["accuracy"]
    if len(predicted) == 1:
        return f"it predicts '{predicted.pop()}' for every example"
    if accuracy <= share:
        return f"its accuracy of {accuracy:.1f} is no better than '{label}' for every example, {share:.1f}"
    return None


def _one_label_set(examples: Sequence[Any], results: Sequence[Any], scores: Scores) -> str | None:
    predicted, gold = {frozenset(result.labels) for result in results}, {frozenset(item.labels) for item in examples}
    if len(predicted) > 1 or len(gold) < 2:
        return None
    return f"it predicts {', '.join(sorted(predicted.pop())) or 'no label'} for every example"


def _no_answers(examples: Sequence[Any], results: Sequence[Any], scores: Scores) -> str | None:
    answered = sum(bool(example.answers) for example in examples)
    if not answered:
        return None
    if all(result.no_answer for result in results):
        return "it answers no question at all"
    share, f1 = 100 * (1 - answered / len(examples)), scores.metrics["f1"]
    return f"its F1 of {f1:.1f} is no better than 'no answer' to every question, {share:.1f}" if f1 <= share else None


def _unrelated(examples: Sequence[Any], results: Sequence[Any], scores: Scores) -> str | None:
    related = abs(scores.metrics.get("spearman", 1.0)) > _UNRELATED  # NaN, for constant scores, is not
    return None if related else "its scores are unrelated to those of dev"


def _nothing(field: str, name: str) -> Comparison:
    """For results that list what was found in `field`."""

    def compare(examples: Sequence[Any], results: Sequence[Any], scores: Scores) -> str | None:
        expected, found = (any(getattr(item, field) for item in items) for items in (examples, results))
        return f"it predicts no {name} at all" if expected and not found else None

    return compare


def _one_text(examples: Sequence[Any], results: Sequence[Any], scores: Scores) -> str | None:
    texts = {result.text.strip() for result in results}
    return "it generates the same text for every input" if len(texts) == 1 < len(results) else None


_COMPARISONS: dict[type[Result], Comparison] = {
    ClassificationResult: _one_label,
    LabelSetResult: _one_label_set,
    PairLabelResult: _one_label,
    SimilarityResult: _unrelated,
    NerResult: _nothing("spans", "entity"),
    RelationResult: _nothing("relations", "relation"),
    CorefResult: _nothing("clusters", "cluster"),
    QaResult: _no_answers,
    GenerationResult: _one_text,
}
"""By the type of the results."""
