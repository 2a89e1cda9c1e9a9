"""Named entities: a predicted span is correct when a gold span has the same boundaries and label.

What enters is labelled spans (of characters or words, nested or not; duplicates count once), or tags; what leaves is
micro `precision`, `recall` and `f1` and `macro_f1`, in percent. Tags are scored as in conlleval and seqeval.
"""

from collections.abc import Iterable, Sequence

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import LabelScores, check_paired, label_table, micro_and_macro
from spanlab.text.tag_schemes import LabelledSpan, TagScheme, detect_scheme, tags_to_spans

Spans = Iterable[tuple[int, int, str]]
"""Spans of one text: start, end, label."""


def score_entities(gold: Sequence[Spans], predicted: Sequence[Spans]) -> dict[str, float]:
    """The scores of the predicted spans, text by text."""
    return micro_and_macro(gold, predicted, _label)


def entity_table(gold: Sequence[Spans], predicted: Sequence[Spans]) -> dict[str, LabelScores]:
    """The scores of each label."""
    return label_table(gold, predicted, _label)


def score_tags(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    scheme: TagScheme | None = None,
    strict: bool = False,
) -> dict[str, float]:
    """The scores of predicted tags, sentence by sentence.

    Without a `scheme` it is detected from the gold tags alone: predicted tags may break any rule.
    """
    gold_spans, predicted_spans = tagged_spans(gold, predicted, scheme=scheme, strict=strict)
    return score_entities(gold_spans, predicted_spans)


def tagged_spans(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    scheme: TagScheme | None = None,
    strict: bool = False,
) -> tuple[list[list[LabelledSpan]], list[list[LabelledSpan]]]:
    """The spans of gold and of predicted tags, for `score_entities` and `entity_table`."""
    check_paired(gold, predicted, "sentences")
    for sentence, (gold_tags, tags) in enumerate(zip(gold, predicted, strict=True), 1):
        if len(gold_tags) != len(tags):
            cause = f"sentence {sentence} has {len(gold_tags)} gold tags and {len(tags)} predicted"
            raise InputError(cause, fix="give one predicted tag per word")
    scheme = scheme or detect_scheme(gold)
    return (
        [tags_to_spans(tags, scheme, strict=strict) for tags in gold],
        [tags_to_spans(tags, scheme, strict=strict) for tags in predicted],
    )


def _label(span: tuple[int, int, str]) -> str:
    return span[2]
