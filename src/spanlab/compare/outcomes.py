"""The test of one model: what its score is computed from, unit by unit, kept in a file.

A unit is what the results of a test set are independent between: a document where the file says which examples share
one (`-DOCSTART-` of CoNLL columns, a field `document` of JSON lines, the paragraph of questions), else an example.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spanlab.errors import InputError, RunError
from spanlab.inference.load import load
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.strict_parsing import read_json
from spanlab.tasks.base import AnyTask
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.examples import Examples

FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """The scores of a model on a test set, and what the first of them is computed from."""

    metrics: Mapping[str, float]
    count: int
    """Examples."""
    counts: ScoreCounts
    """A row for each unit."""
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As `outcomes.json` has it."""
        return {
            "format_version": FORMAT_VERSION,
            "metric": self.counts.metric,
            "rule": self.counts.rule,
            "count": self.count,
            "metrics": dict(self.metrics),
            "remarks": list(self.remarks),
            "counts": self.counts.counts_UC.tolist(),
        }


def read_outcomes(path: Path) -> Outcomes:
    """Read `outcomes.json`."""
    try:
        content = read_json(path)
        if content["format_version"] != FORMAT_VERSION:
            raise ValueError
        counts_UC = np.array(content["counts"], np.float64)
        return Outcomes(
            metrics={str(name): float(value) for name, value in content["metrics"].items()},
            count=int(content["count"]),
            counts=ScoreCounts(metric=content["metric"], rule=content["rule"], counts_UC=counts_UC),
            remarks=tuple(map(str, content["remarks"])),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError("not the outcomes of a test", path=path, fix="delete the file; it is computed again") from None


def run_test(model: str, test: str, config: TaskConfig, task: str | None = None) -> Outcomes:
    """Test a fine-tuned model; `config` has the settings of the task's files."""
    precision = config.training.precision
    predictor = load(model, device=config.training.device, precision=None if precision == "auto" else precision)
    data = TaskDataConfig(columns=config.data.columns, tag_scheme=config.data.tag_scheme, bad_rows=config.data.bad_rows)
    chosen, labelled, results = predictor.predict_labelled(test, task=task, data=data)
    metrics = chosen.score(labelled.examples, results).metrics
    counts = chosen.score_counts(labelled.examples, results)
    if abs(counts.score() - metrics[counts.metric]) > 1e-6 * max(1.0, abs(metrics[counts.metric])):
        raise RunError(f"{test}: the counts give {counts.score()} and the metric is {metrics[counts.metric]}")
    units = [_unit(chosen, labelled, index) for index in range(len(labelled))]
    return Outcomes(metrics=metrics, count=len(labelled), counts=counts.grouped(units), remarks=tuple(labelled.remarks))


def _unit(task: AnyTask, labelled: Examples, index: int) -> Hashable:
    """What the example shares with others; its own index if nothing."""
    row = labelled.rows[index]
    document = row.document or row.values.get("document") or task.document(labelled.examples[index])
    return index if document is None else str(document)
