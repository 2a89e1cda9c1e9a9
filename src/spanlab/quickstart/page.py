"""A quickstart as one page: the table, the curves of every run, and what the models find in unseen text."""

from html import escape
from importlib import resources
from pathlib import Path
from typing import Literal

from spanlab.quickstart import plan
from spanlab.quickstart.next_commands import next_commands
from spanlab.quickstart.results import QuickstartResults, Sample, SampleSpan
from spanlab.report.curves import Chart, Line, draw_chart, draw_curves, smooth
from spanlab.report.number_format import duration
from spanlab.report.run_history import History, read_run
from spanlab.report.run_page import Section, html_page
from spanlab.tasks.spans.html import draw_spans

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


_COLOURS: dict[str, Literal["train", "dev", "third"]] = {
    plan.UNTRAINED: "train",
    plan.PRETRAINED: "dev",
    plan.MINILM: "third",
}


def quickstart_page(folder: Path, findings: QuickstartResults) -> str:
    """The page of a quickstart whose runs are all done."""
    parts = [
        Section(title="Test scores", html=_table(findings)),
        Section(title="Pre-training: losses by objective", html=_losses(folder, plan.PRETRAINED)),
        Section(title="Fine-tuning", html=_task_curves(folder, findings)),
        Section(title="Entities in text that no model has seen", html=_entity_samples(findings)),
        Section(title="Answers about text that no model has seen", html=_question_samples(findings)),
        Section(title="Next", html=_commands(folder, findings)),
        Section(title="The page of every run", html=_links(folder, findings)),
    ]
    if findings.row(plan.MINILM) is not None:
        parts.insert(2, Section(title="MiniLM, continued: losses by objective", html=_losses(folder, plan.MINILM)))
    style = (resources.files("spanlab.quickstart") / "page.css").read_text(encoding="utf-8")
    return html_page("SpanLab quickstart", _headline(findings), parts, style)


def _headline(findings: QuickstartResults) -> str:
    facts = {
        "time": duration(findings.seconds),
        "models compared": str(len(findings.rows)),
        "test passages": f"{findings.tested['entities']:,}",
        "test questions": f"{findings.tested['questions']:,}",
    }
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    told = "A tokenizer, a corpus, pre-training, fine-tuning and scores, all made on this machine."
    return f"<header><h1>SpanLab quickstart</h1><p>{told}</p><dl>{listed}</dl></header>"


def _table(findings: QuickstartResults) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header())
    body = "".join(
        f"<tr><th>{escape(row[0])}</th><td class='words'>{escape(row[1])}</td>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[2:])
        + "</tr>"
        for row in rows(findings)
    )
    notes = "".join(f"<p>{escape(line)}</p>" for line in remarks(findings))
    return f'<table class="courses scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}'


def _losses(folder: Path, run: str) -> str:
    return draw_curves(History(read_run(folder / run).records))["Loss"]


def _task_curves(folder: Path, findings: QuickstartResults) -> str:
    """Of each task the loss in training and the score on dev, a line for each beginning."""
    charts = []
    for task in plan.TASKS:
        losses, scores = [], []
        for row in findings.rows:
            history = History(read_run(folder / plan.run_name(row.beginning, task)).records)
            colour = _COLOURS[row.beginning]
            losses.append(Line(name=row.title, series=smooth(history.series("train", "loss")), colour=colour))
            scores.append(Line(name=row.title, series=history.series("dev", task.metrics[0]), colour=colour))
        charts += [
            Chart(title=f"{task.title}: training loss", lines=tuple(losses)),
            Chart(title=f"{task.title}: F1 on dev", lines=tuple(scores), from_zero=True),
        ]
    return f'<div class="charts">{"".join(map(draw_chart, charts))}</div>'


def _entity_samples(findings: QuickstartResults) -> str:
    labels = [span.label for sample in findings.entities for span in _all_spans(sample)]
    return "".join(_entity_sample(sample, findings, labels) for sample in findings.entities)


def _all_spans(sample: Sample) -> list[SampleSpan]:
    return [*sample.gold, *(span for spans in sample.found.values() for span in spans)]


def _entity_sample(sample: Sample, findings: QuickstartResults, labels: list[str]) -> str:
    readings = [(f"by the almanac: {len(sample.gold)}", sample.gold)]
    for row in reversed(findings.rows):
        found = sample.found[row.beginning]
        right = len(set(found) & set(sample.gold))
        readings.append((f"{row.title}: {right} right of {len(found)} found", found))
    drawn = "".join(
        f"<h4>{escape(title)}</h4>{draw_spans(sample.text, _places(spans), labels)}" for title, spans in readings
    )
    return f"<article><h3>{escape(sample.id)}</h3>{drawn}</article>"


def _places(spans: tuple[SampleSpan, ...]) -> list[tuple[int, int, str]]:
    return [(span.start, span.end, span.label) for span in spans]


def _question_samples(findings: QuickstartResults) -> str:
    """The questions with every model's answer, and each passage with the answers of the best model marked."""
    best = findings.best(plan.TASKS[1])
    head = "".join(f"<th>{escape(title)}</th>" for title in ("", "question", "by the almanac", *_titles(findings)))
    body = "".join(_answers(number, sample, findings) for number, sample in enumerate(findings.questions, start=1))
    marked: dict[str, list[tuple[int, int, str]]] = {}
    for number, sample in enumerate(findings.questions, start=1):
        found = [(start, end, f"answer {number}") for start, end, _ in _places(sample.found[best.beginning])]
        marked.setdefault(sample.text, []).extend(found)
    texts = "".join(f"<article>{draw_spans(text, spans)}</article>" for text, spans in marked.items())
    told = f"<p>Answers of the best of them ({escape(best.title)}), where it finds them:</p>"
    return f"<table class='answers'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{told}{texts}"


def _titles(findings: QuickstartResults) -> list[str]:
    return [row.title for row in findings.rows]


def _answers(number: int, sample: Sample, findings: QuickstartResults) -> str:
    right = {sample.answer((span,)) for span in sample.gold} or {""}
    cells = "".join(
        f"<td class='{'right' if answer in right else 'wrong'}'>{escape(answer) or '<i>no answer</i>'}</td>"
        for answer in (sample.answer(sample.found[row.beginning]) for row in findings.rows)
    )
    gold = escape(" / ".join(sorted(right))) or "<i>no answer</i>"
    return f"<tr><th>{number}</th><td>{escape(sample.question)}</td><td>{gold}</td>{cells}</tr>"


def _commands(folder: Path, findings: QuickstartResults) -> str:
    lines = "".join(
        f"<dt>{escape(one.what)}</dt><dd><code>{escape(one.command)}</code></dd>"
        for one in next_commands(str(folder), findings)
    )
    return f"<dl class='commands'>{lines}</dl>"


def _links(folder: Path, findings: QuickstartResults) -> str:
    beginnings = [row.beginning for row in findings.rows]
    runs = [name for name in plan.SHARES if name.partition("-")[0] in beginnings]
    items = "".join(f'<li><a href="{escape(run)}/report.html">{escape(run)}</a></li>' for run in runs)
    return f"<ul class='links'>{items}</ul>"
