"""What the page of a fine-tuning run shows beside its curves: scores by label, who is taken for whom, worst errors."""

from collections.abc import Sequence
from html import escape

from spanlab.metrics.classification import ConfusionMatrix
from spanlab.report.run_page import Section
from spanlab.tasks.result import Mistake, Scores

_MOST_MISTAKES = 30
_MOST_LABELS = 40
"""A matrix of more labels is a wall, not a picture; the table by label is there in any case."""


def task_sections(scores: Scores | None, mistakes: Sequence[Mistake]) -> tuple[Section, ...]:
    """The sections of the last evaluation; none without one."""
    if scores is None:
        return ()
    parts = [Section(title="Scores by label", html=_labels(scores))] if scores.per_label else []
    if scores.confusion is not None and len(scores.confusion.labels) <= _MOST_LABELS:
        parts.append(Section(title="Confusion matrix", html=_confusion(scores.confusion)))
    if mistakes:
        parts.append(Section(title="Worst errors", html=_mistakes(mistakes, scores.count)))
    return tuple(parts)


def _labels(scores: Scores) -> str:
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{row.precision:.1f}</td><td>{row.recall:.1f}</td>"
        f"<td>{row.f1:.1f}</td><td>{row.support:,}</td></tr>"
        for label, row in scores.per_label.items()
    )
    head = "<tr><th>label</th><th>precision</th><th>recall</th><th>F1</th><th>examples</th></tr>"
    return f"<table>{head}{rows}</table>"


def _confusion(matrix: ConfusionMatrix) -> str:
    """Rows are gold, columns predicted; the deeper the colour, the larger its share of the row."""
    head = "".join(f"<th>{escape(label)}</th>" for label in matrix.labels)
    rows = "".join(
        f"<tr><th>{escape(label)}</th>{''.join(_cell(count, sum(counts)) for count in counts)}</tr>"
        for label, counts in zip(matrix.labels, matrix.counts, strict=True)
    )
    return f"<table><tr><th>gold \\ predicted</th>{head}</tr>{rows}</table>"


def _cell(count: int, row: int) -> str:
    share = count / row if row else 0.0
    return f"<td style='text-align:right;background:rgba(74,144,217,{0.8 * share:.3f})'>{count:,}</td>"


def _mistakes(mistakes: Sequence[Mistake], count: int) -> str:
    rows = "".join(
        f"<tr><td>{mistake.shown}</td><td>{escape(mistake.gold)}</td><td>{escape(mistake.predicted)}</td>"
        f"<td>{mistake.badness:.3f}</td></tr>"
        for mistake in mistakes[:_MOST_MISTAKES]
    )
    head = "<tr><th>input</th><th>gold</th><th>predicted</th><th>how wrong</th></tr>"
    return f"<p>{len(mistakes):,} of {count:,} are not right.</p><table>{head}{rows}</table>"
