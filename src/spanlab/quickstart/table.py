"""The table of a quickstart: a row a beginning, a column a score, and in words what pre-training was worth."""

from spanlab.quickstart import plan
from spanlab.quickstart.results import QuickstartResults

_NOISE = 3.0
"""Points; the almanac's test files are small, and a smaller difference says nothing."""
_LEARNT = 20.0
"""Points; a model below this has hardly begun to learn its task."""


def header() -> tuple[str, ...]:
    """The names of the columns."""
    scores = (f"{task.title} {_named(metric)}" for task in plan.TASKS for metric in task.metrics)
    return ("begun with", "learnt before", *scores)


def rows(findings: QuickstartResults) -> list[tuple[str, ...]]:
    """The cells, as text."""
    return [
        (
            row.title,
            row.fitted,
            *(f"{row.scores[task.name][metric]:.1f}" for task in plan.TASKS for metric in task.metrics),
        )
        for row in findings.rows
    ]


def remarks(findings: QuickstartResults) -> list[str]:
    """What to think of it."""
    said = [
        f"Test scores in percent: {findings.tested['entities']} passages, {findings.tested['questions']} questions, "
        "none of which was in the text, the training files or the choice of a model."
    ]
    before, after = findings.row(plan.UNTRAINED), findings.row(plan.PRETRAINED)
    if before is not None and after is not None:
        said += [_worth(task, before.scores[task.name], after.scores[task.name]) for task in plan.TASKS]
    said += [_not_learnt(task, findings) for task in plan.TASKS if _best_score(task, findings) < _LEARNT]
    if findings.left_out:
        said.append(f"Not in the table: {findings.left_out}.")
    return said


def _worth(task: plan.QuickstartTask, before: dict[str, float], after: dict[str, float]) -> str:
    gain = after[task.metrics[0]] - before[task.metrics[0]]
    told = f"Pre-training here changed the F1 of {task.title} by {gain:+.1f} points"
    if gain > _NOISE:
        return f"{told}."
    if gain < -_NOISE:
        return f"{told}: it did not help."
    return f"{told}: with so few examples that is no difference."


def _best_score(task: plan.QuickstartTask, findings: QuickstartResults) -> float:
    return findings.best(task).scores[task.name][task.metrics[0]]


def _not_learnt(task: plan.QuickstartTask, findings: QuickstartResults) -> str:
    best = _best_score(task, findings)
    return f"An F1 of {best:.1f} means that {task.title} were not learnt in this time; --budget gives more of it."


def _named(metric: str) -> str:
    return {"f1": "F1", "exact_match": "exact"}[metric]
