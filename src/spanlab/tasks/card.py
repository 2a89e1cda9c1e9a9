"""The model card: README.md in a model folder, with what the model is, what it was trained on and how good it is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """What a card says besides the task's own."""

    base: str
    """The model that was fine-tuned."""
    train: str
    examples: int
    dev: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    transformers_class: str | None = None


def write_card(task: AnyTask, facts: CardFacts, scores: Scores | None) -> str:
    """The text of the card, in the hub's format."""
    parts = [_front(task), f"# {task.name.capitalize()} from {facts.base}", _about(task, facts)]
    if scores is not None:
        parts += [f"## Scores on {facts.dev}", _metrics(scores)]
    if scores is not None and scores.per_label:
        parts += ["## Scores by label", _per_label(scores)]
    parts += ["## Use", _use(facts), "## Settings", _settings(facts)]
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, kw_only=True)
class CardTask:
    """One of several tasks on a card."""

    name: str
    """What `task=` asks for."""
    task: AnyTask
    facts: CardFacts
    scores: Scores | None = None


def write_shared_card(tasks: Sequence[CardTask], facts: CardFacts) -> str:
    """The card of a model for several tasks; `facts` are those of the whole run."""
    parts = [
        _front(*(each.task for each in tasks)),
        f"# {len(tasks)} tasks on {facts.base}",
        f"Fine-tuned by SpanLab {__version__} on {facts.examples} examples of {len(tasks)} tasks, with one encoder.",
        _overview(tasks),
        *map(task_section, tasks),
        "## Use",
        _use_by_name(tasks[0].name),
        "## Settings",
        _settings(facts),
    ]
    return "\n\n".join(parts) + "\n"


def task_section(each: CardTask) -> str:
    """What a card says about one of its tasks."""
    parts = [f"## Task `{each.name}`: {each.task.name}", _about(each.task, each.facts)]
    if each.scores is not None:
        parts += [f"### Scores on {each.facts.dev}", _metrics(each.scores)]
        parts += [_per_label(each.scores)] if each.scores.per_label else []
    return "\n\n".join(parts)


def _overview(tasks: Sequence[CardTask]) -> str:
    rows = []
    for each in tasks:
        scores, primary = each.scores, each.task.primary
        score = "" if scores is None else f"{primary} {scores.metrics[primary]:.2f}"
        rows.append(f"| `{each.name}` | {each.task.name} | {each.facts.examples} | {score} |")
    return "\n".join(["| name | task | examples | on dev |", "|---|---|---|---|", *rows])


def _use_by_name(name: str) -> str:
    call = f'results = model.predict(inputs, task="{name}")  # or task="all"'
    return "\n".join(["```python", "import spanlab", "", "model = spanlab.load(FOLDER)", call, "```"])


def _front(*tasks: AnyTask) -> str:
    names = dict.fromkeys(task.name for task in tasks)
    lines = ["---", "library_name: spanlab", "tags:", "- spanlab", *(f"- {name}" for name in names)]
    if len(tasks) == 1 and tasks[0].name in _PIPELINES:
        lines.append(f"pipeline_tag: {_PIPELINES[tasks[0].name]}")
    return "\n".join([*lines, "---"])


def _about(task: AnyTask, facts: CardFacts) -> str:
    dropped = sum(facts.dropped.values())
    left_out = f" ({dropped} were left out: {_kinds(facts.dropped)})" if dropped else ""
    sentences = [f"Fine-tuned by SpanLab {__version__} on {facts.examples} examples of {facts.train}{left_out}."]
    if task.fitted.labels:
        sentences.append(f"Labels: {', '.join(f'`{label}`' for label in task.fitted.labels)}.")
    if task.fitted.thresholds:
        told = ", ".join(f"{name} {value:g}" for name, value in task.fitted.thresholds.items())
        sentences.append(f"Thresholds, tuned on dev: {told}.")
    return "\n".join(sentences)


def _kinds(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in dropped.items())


def _metrics(scores: Scores) -> str:
    rows = [f"| {name} | {value:.2f} |" for name, value in scores.metrics.items()]
    return "\n".join([f"{scores.count} examples.", "", "| metric | value |", "|---|---|", *rows])


def _per_label(scores: Scores) -> str:
    rows = [
        f"| {label} | {row.precision:.2f} | {row.recall:.2f} | {row.f1:.2f} | {row.support} |"
        for label, row in scores.per_label.items()
    ]
    return "\n".join(["| label | precision | recall | F1 | examples |", "|---|---|---|---|---|", *rows])


def _use(facts: CardFacts) -> str:
    lines = [
        "```python",
        "import spanlab",
        "",
        "model = spanlab.load(FOLDER)",
        "results = model.predict(inputs)",
        "```",
    ]
    if facts.transformers_class:
        lines.append(f"\nIt loads in transformers as `{facts.transformers_class}`.")
    return "\n".join(lines)


def _settings(facts: CardFacts) -> str:
    return f"```json\n{json.dumps(facts.settings, indent=2, ensure_ascii=False)}\n```"
