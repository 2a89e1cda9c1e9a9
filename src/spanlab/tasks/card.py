"""The model card, README.md of a model folder: the base model, training data, labels, scores, usage and settings.

A task with its scores and the facts of its run enter; Markdown with the hub's front matter leaves.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spanlab.markdown import code, code_block, plain
from spanlab.tasks.base import AnyTask
from spanlab.tasks.result import Scores
from spanlab.version import __version__

_PIPELINES = {
    "classification": "text-classification",
    "similarity": "sentence-similarity",
    "ner": "token-classification",
    "qa": "question-answering",
    "summarisation": "summarization",
    "generation": "text-generation",
}


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What a card says about a run, besides the task and its scores."""

    base: str
    """The model that was fine-tuned."""
    train: str
    examples: int
    dev: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    transformers_class: str | None = None


def write_card(task: AnyTask, facts: CardFacts, scores: Scores | None) -> str:
    """The card of a model for one task."""
    parts = [_front_matter(task), f"# {task.name.capitalize()} from {plain(facts.base)}", _about(task, facts)]
    if scores is not None:
        parts += [f"## Scores on {plain(str(facts.dev))}", _metrics(scores)]
    if scores is not None and scores.per_label:
        parts += ["## Scores by label", _per_label(scores)]
    parts += ["## Use", _code("results = model.predict(inputs)")]
    if facts.transformers_class:
        parts.append(f"It loads in transformers as `{facts.transformers_class}`.")
    parts += ["## Settings", _settings(facts)]
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, kw_only=True)
class CardTask:
    """One of several tasks on a card."""

    name: str
    """The name by which `predict(task=…)` selects it."""
    task: AnyTask
    facts: CardFacts
    scores: Scores | None = None


def write_shared_card(tasks: Sequence[CardTask], facts: CardFacts) -> str:
    """The card of a model for several tasks; `facts` are those of the whole run."""
    parts = [
        _front_matter(*(section.task for section in tasks)),
        f"# {len(tasks)} tasks on {plain(facts.base)}",
        f"Fine-tuned by SpanLab {__version__} on {facts.examples} examples of {len(tasks)} tasks, with one encoder.",
        _overview(tasks),
        *map(task_section, tasks),
        "## Use",
        _code(f'results = model.predict(inputs, task={json.dumps(tasks[0].name)})  # or task="all"'),
        "## Settings",
        _settings(facts),
    ]
    return "\n\n".join(parts) + "\n"


def task_section(section: CardTask) -> str:
    """The section of one of several tasks."""
    parts = [f"## Task {code(section.name)}: {section.task.name}", _about(section.task, section.facts)]
    if section.scores is not None:
        parts += [f"### Scores on {plain(str(section.facts.dev))}", _metrics(section.scores)]
        parts += [_per_label(section.scores)] if section.scores.per_label else []
    return "\n\n".join(parts)


def _overview(tasks: Sequence[CardTask]) -> str:
    rows = []
    for section in tasks:
        scores, primary = section.scores, section.task.primary
        score = "" if scores is None else f"{primary} {scores.metrics[primary]:.2f}"
        rows.append(f"| {code(section.name, cell=True)} | {section.task.name} | {section.facts.examples} | {score} |")
    return "\n".join(["| name | task | examples | on dev |", "|---|---|---|---|", *rows])


def _code(call: str) -> str:
    return code_block("\n".join(["import spanlab", "", "model = spanlab.load(FOLDER)", call]), "python")


def _front_matter(*tasks: AnyTask) -> str:
    names = dict.fromkeys(task.name for task in tasks)
    lines = ["---", "library_name: spanlab", "tags:", "- spanlab", *(f"- {name}" for name in names)]
    if len(tasks) == 1 and tasks[0].name in _PIPELINES:
        lines.append(f"pipeline_tag: {_PIPELINES[tasks[0].name]}")
    return "\n".join([*lines, "---"])


def _about(task: AnyTask, facts: CardFacts) -> str:
    dropped = sum(facts.dropped.values())
    reasons = ", ".join(f"{count} {plain(problem)}" for problem, count in facts.dropped.items())
    note = f" ({dropped} were left out: {reasons})" if dropped else ""
    sentences = [f"Fine-tuned by SpanLab {__version__} on {facts.examples} examples of {plain(facts.train)}{note}."]
    if task.fitted.labels:
        sentences.append(f"Labels: {', '.join(map(code, task.fitted.labels))}.")
    if task.fitted.thresholds:
        thresholds = ", ".join(f"{plain(name)} {value:g}" for name, value in task.fitted.thresholds.items())
        sentences.append(f"Thresholds, tuned on dev: {thresholds}.")
    return "\n".join(sentences)


def _metrics(scores: Scores) -> str:
    rows = [f"| {name} | {value:.2f} |" for name, value in scores.metrics.items()]
    return "\n".join([f"{scores.count} examples.", "", "| metric | value |", "|---|---|", *rows])


def _per_label(scores: Scores) -> str:
    rows = [
        f"| {plain(label)} | {row.precision:.2f} | {row.recall:.2f} | {row.f1:.2f} | {row.support} |"
        for label, row in scores.per_label.items()
    ]
    return "\n".join(["| label | precision | recall | F1 | examples |", "|---|---|---|---|---|", *rows])


def _settings(facts: CardFacts) -> str:
    return code_block(json.dumps(facts.settings, indent=2, ensure_ascii=False), "json")
