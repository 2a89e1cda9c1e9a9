"""The model card, README.md of a model folder: the base model, training data, labels, scores, usage and settings.

A task with its scores and the facts of its run enter; Markdown with the hub's front matter leaves.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spanlab.markdown import code, code_block, plain
from spanlab.models.front_matter import ScoredTask, front_matter
from spanlab.tasks.base import AnyTask
from spanlab.tasks.formats.row import Row
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


_PASSAGE = (
    "Few cooks have changed the trade as much as Auguste Escoffier. He was born in 1846 in Villeneuve-Loubet, near "
    "Nice, and started as a boy in his uncle's restaurant."
)
ALMANAC: Mapping[str, str] = {
    "text": _PASSAGE,
    "question": "In whose business did Escoffier begin his working life?",
    "context": _PASSAGE,
    "source": _PASSAGE,
    "text_a": "Every section of the kitchen received work of a particular kind.",
    "text_b": "Tasks were shared out among separate stations.",
}
"""Inputs from the almanac, by field, for a model whose own data shall not be shown."""
_LONGEST_EXAMPLE = 240
_UNFIT = re.compile(r"[\n\r@]|://|\d{4,}")
"""Line breaks, and what addresses and long numbers have: a card is given away with the model."""


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """What a card says about a run, besides the task and its scores."""

    base: str
    """The model that was fine-tuned, without folders."""
    base_place: str | None = None
    """The model as it was given: a folder, a name in the box or a hub id, for its licence and its id."""
    example: Mapping[str, Any] | None = None
    """An input for the section on usage; None: one from the almanac."""
    train: str
    examples: int
    dev: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    transformers_class: str | None = None


def write_card(task: AnyTask, facts: CardFacts, scores: Scores | None) -> str:
    """The card of a model for one task."""
    title = f"{task.name.capitalize()} from {facts.base}"
    parts = [_front_matter(title, [(task, facts, scores)], facts.base_place), f"# {plain(title)}", _about(task, facts)]
    if scores is not None:
        parts += [f"## Scores on {plain(str(facts.dev))}", _metrics(scores)]
    if scores is not None and scores.per_label:
        parts += ["## Scores by label", _per_label(scores)]
    parts += ["## Use", _code(task, facts.example)]
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
    title = f"{len(tasks)} tasks on {facts.base}"
    scored = [(section.task, section.facts, section.scores) for section in tasks]
    parts = [
        _front_matter(title, scored, facts.base_place),
        f"# {plain(title)}",
        f"Fine-tuned by SpanLab {__version__} on {facts.examples} examples of {len(tasks)} tasks, with one encoder.",
        _overview(tasks),
        *map(task_section, tasks),
        "## Use",
        _code(tasks[0].task, tasks[0].facts.example, name=tasks[0].name),
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


def _code(task: AnyTask, example: Mapping[str, Any] | None, *, name: str | None = None) -> str:
    """How the model is used, with an input that it takes; `name`: of one of several tasks."""
    values = example or {field: ALMANAC[field] for field in task.shape.required}
    texts = [json.dumps(values[field], ensure_ascii=False) for field in task.shape.required]
    given = texts[0] if list(task.shape.required) == ["text"] else _pair(texts) if len(texts) == 2 else None
    given = given or json.dumps(dict(values), ensure_ascii=False)
    chosen = "" if name is None else f", task={json.dumps(name)}"
    comment = "" if name is None else '  # or task="all"'
    call = f"result = model.predict({given}{chosen})[0]{comment}"
    lines = ["import spanlab", "", 'model = spanlab.load("this-folder")', call, "print(result.to_dict())"]
    return code_block("\n".join(lines), "python")


def _pair(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)})"


def _front_matter(
    title: str, scored: Sequence[tuple[AnyTask, CardFacts, Scores | None]], base_place: str | None
) -> str:
    names = list(dict.fromkeys(task.name for task, _, _ in scored))
    return front_matter(
        name=title,
        tags=names,
        base=base_place,
        datasets=[facts.train for _, facts, _ in scored],
        pipeline_tag=_PIPELINES.get(names[0]) if len(scored) == 1 else None,
        scores=[
            ScoredTask(task=_PIPELINES.get(task.name, task.name), dataset=str(facts.dev), metrics=scores.metrics)
            for task, facts, scores in scored
            if scores is not None
        ],
    )


def card_example(task: AnyTask, rows: Iterable[Row]) -> dict[str, Any] | None:
    """The first input of these rows that is short, of one line, and has nothing in it that looks personal."""
    for row in rows:
        values = {field: row.values.get(field) for field in task.shape.required}
        fit = all(isinstance(text, str) and text.strip() and not _UNFIT.search(text) for text in values.values())
        if fit and sum(map(len, map(str, values.values()))) <= _LONGEST_EXAMPLE:
            return values
    return None


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
