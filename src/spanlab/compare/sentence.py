"""The results of a study in one sentence of plain words: what won, by how much, how sure."""

from collections.abc import Mapping

from spanlab.compare.results import Comparison, StudyResults, TaskScores
from spanlab.metrics.confidence import Difference
from spanlab.tasks.result import CORRELATIONS


def sum_up(results: StudyResults) -> str:
    """A clause for each task."""
    return f"{'; '.join(_clause(results, task) for task in results.tasks)}."


def _clause(results: StudyResults, task: str) -> str:
    scores, baseline = results.scores[task], results.systems[0]
    compared = {item.system: item for item in results.comparisons if item.task == task and item.difference is not None}
    if not compared:
        return f"on {task}, nothing can be compared yet: too few runs of {baseline} and of another are finished"
    best = max((baseline, *compared), key=lambda name: scores[name].mean)
    # A baseline that is best is compared with the one that comes next.
    rival = compared[best if best != baseline else max(compared, key=lambda name: scores[name].mean)]
    others = [_below(item, scores) for item in compared.values() if item is not rival and item.shown]
    return f"on {task}, {'; '.join([_compare(rival, scores), *others])}"


def _compare(comparison: Comparison, scores: Mapping[str, TaskScores]) -> str:
    """The best system and its rival, one of which is the baseline."""
    assert comparison.difference is not None
    if comparison.same:
        return f"{comparison.system} and {comparison.baseline} have the same scores"
    metric, found = scores[comparison.system].metric, _upwards(comparison.difference)
    ahead = comparison.difference.mean >= 0
    best, other = (
        (comparison.system, comparison.baseline) if ahead else (comparison.baseline, f"{comparison.system}, the next")
    )
    interval = f"95 % interval {amount(found.low, metric)} to {amount(found.high, metric)}"
    lead = f"{amount(found.mean, metric)} {unit(metric)} above {other}"
    if comparison.shown:
        return f"{best} is best: {lead} ({interval}), which is hardly chance (p {p_text(comparison.p_holm)})"
    return (
        f"no difference is shown: {best} is {lead} ({interval}, p {p_text(comparison.p_holm)}), and only a difference "
        f"of {amount(found.detectable, metric)} would have been noticed in four of five such studies"
    )


def _below(comparison: Comparison, scores: Mapping[str, TaskScores]) -> str:
    """Another system that differs from the baseline, too."""
    assert comparison.difference is not None
    metric, mean = scores[comparison.system].metric, comparison.difference.mean
    side = "above" if mean > 0 else "below"
    return (
        f"{comparison.system} is {amount(abs(mean), metric)} {side} {comparison.baseline} "
        f"(p {p_text(comparison.p_holm)})"
    )


def _upwards(found: Difference) -> Difference:
    """The difference from the other side if it is negative."""
    if found.mean >= 0:
        return found
    return Difference(**{**vars(found), "mean": -found.mean, "low": -found.high, "high": -found.low})


def unit(metric: str) -> str:
    """`points of f1`; a correlation has none."""
    return f"of {metric}" if metric in CORRELATIONS else f"points of {metric}"


def amount(value: float, metric: str) -> str:
    """A score or a difference, as many digits as mean something."""
    text = f"{value:.3f}" if metric in CORRELATIONS else f"{value:.2f}"
    return text.replace("-", "−")


def p_text(p: float | None) -> str:
    """`= 0.012`, `< 0.001`."""
    if p is None:
        return "unknown"
    return "< 0.001" if p < 0.001 else f"= {p:.2g}" if p < 0.1 else f"= {p:.2f}"
