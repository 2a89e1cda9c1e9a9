"""The report of a quickstart, part by part: a reading, losses and fillings, test scores, commands to try next.

The words of the table and its remarks are also those of the terminal.
"""

from collections.abc import Sequence
from html import escape
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from spanlab.models import NAMES
from spanlab.quickstart import plan
from spanlab.quickstart.results import Continuation, FilledSpan, QuickstartResults, Reading, Sample, Span
from spanlab.report.curves import Chart, Line, draw_chart, draw_curves
from spanlab.report.number_format import duration
from spanlab.report.run_history import History, read_run
from spanlab.report.run_page import Section, html_page
from spanlab.tasks.spans.html import draw_spans

_NOISE = 3.0
"""Points of F1; the test file is small, and smaller differences are noise."""
_COLOURS: dict[str, Literal["train", "dev", "third"]] = {
    plan.RANDOM: "train",
    plan.SPANBERT: "dev",
    plan.MINILM: "third",
}
HEADER = ("initial weights", "fine-tuning", "best F1 on dev", "F1 on test")
LOSS_HEADER = ("held-out loss", "before", "after")
LOSS_MEANING = "Nats for each masked token, on text of the corpus that was not trained on; lower is better."


def rows(results: QuickstartResults) -> list[tuple[str, ...]]:
    """The rows of the table of scores, as text."""
    return [
        (row.title, f"{row.steps:,} steps, {row.epochs:.1f} epochs", f"{row.dev_f1:.1f}", f"{row.f1:.1f}")
        for row in results.rows
    ]


def loss_rows(continuation: Continuation) -> list[tuple[str, ...]]:
    """The rows of the table of losses, as text."""
    return [
        (name.upper(), f"{loss:.2f}", f"{continuation.after[name]:.2f}" if name in continuation.after else "–")
        for name, loss in continuation.before.items()
    ]


def remarks(results: QuickstartResults) -> list[str]:
    """What the scores mean, and what is missing, in sentences."""
    lines = []
    if results.rows:
        lines.append(
            "F1, in percent, would be 100 if every entity were found, with its exact boundaries and type, and nothing "
            f"else: on {results.tested} test passages, which were used neither for training nor to choose a model."
        )
    random, pretrained = results.row(plan.RANDOM), results.row(plan.SPANBERT)
    if random is not None and pretrained is not None:
        lines.append(_gain(pretrained.f1 - random.f1))
    return [*lines, *(f"Left out: {line}." for line in results.left_out)]


def _gain(points: float) -> str:
    line = f"The same steps from {plan.SPANBERT_NAME} and from random weights differ by {points:+.1f} points"
    if points > _NOISE:
        return f"{line}: that is what pre-training is worth here."
    if points < -_NOISE:
        return f"{line}: pre-training did not help here."
    return f"{line}: within the noise of so few examples."


def quickstart_page(folder: Path, results: QuickstartResults) -> str:
    """The report of a quickstart whose runs are all finished, as HTML."""
    scores = _table(HEADER, rows(results)) if results.rows else ""
    parts = [
        Section(title="Pre-training continued on a text", html=_continuation(folder, results.continuation)),
        Section(title="A new task: entities", html=scores + _paragraphs(remarks(results)) + _dev_curves(folder)),
        Section(title="Entities in unseen text", html=_samples(results) if results.rows else ""),
        Section(title="What to try next", html=_commands(folder, results)),
        Section(title="Reports of the runs", html=_links(folder)),
    ]
    if results.reading is not None:
        parts.insert(0, Section(title="What the reader finds in a short text", html=_reading(results.reading)))
    style = (resources.files("spanlab.quickstart") / "page.css").read_text(encoding="utf-8")
    return html_page("SpanLab quickstart", _headline(results), parts, style)


def _headline(results: QuickstartResults) -> str:
    best = results.best
    facts = {
        "time": duration(results.seconds),
        "continued pre-training": f"{results.continuation.steps:,} steps",
        "best F1 on test": "–" if best is None else f"{best.f1:.1f}, from {best.title}",
    }
    listed = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    intro = "A model that reads, one that goes on learning, and a new task, all on this machine."
    return f"<header><h1>SpanLab quickstart</h1><p>{intro}</p><dl>{listed}</dl></header>"


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = "".join(
        f"<tr><th>{escape(line[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in line[1:])}</tr>"
        for line in body
    )
    return f'<table class="courses scores"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'


def _paragraphs(lines: list[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _reading(reading: Reading) -> str:
    clusters = [
        (span.start, span.end, str(number))
        for number, cluster in enumerate(reading.clusters, start=1)
        for span in cluster
    ]
    parts = []
    if reading.entities:
        parts.append(f"<h4>entities</h4>{_draw(reading.text, reading.entities, ())}")
    if clusters:
        parts.append(f"<h4>coreference: the same number, the same referent</h4>{draw_spans(reading.text, clusters)}")
    if not parts:
        parts.append(f"<p>{escape(reading.text)}</p>")
    if reading.answers:
        answers = [(answer.question, answer.text or "no answer") for answer in reading.answers]
        parts.append(f"<div class='answers'>{_table(('question', 'answer'), answers)}</div>")
    return "".join(parts)


def _draw(text: str, spans: tuple[Span, ...], labels: tuple[str, ...]) -> str:
    return draw_spans(text, [(span.start, span.end, span.label) for span in spans], labels)


def _continuation(folder: Path, continuation: Continuation) -> str:
    lengths = f"{continuation.steps:,} steps, {continuation.epochs:.1f} epochs. {LOSS_MEANING}"
    losses = _table(LOSS_HEADER, loss_rows(continuation)) + _paragraphs([lengths])
    curves = draw_curves(History(read_run(folder / plan.CONTINUED).records))["Loss"]
    return losses + "".join(map(_filled, continuation.filled)) + curves


def _filled(filled: FilledSpan) -> str:
    lines = "".join(
        f"<dt>{name}</dt><dd>{escape(filled.left)} <mark>{escape(words)}</mark> {escape(filled.right)}</dd>"
        for name, words in (("text", filled.gold), ("before", filled.before), ("after", filled.after))
    )
    return f"<article><dl class='filled'>{lines}</dl></article>"


def _dev_curves(folder: Path) -> str:
    """F1 on dev of every run, also of those that are left out of the table: it shows why."""
    lines = []
    for weights, colour in _COLOURS.items():
        run = folder / plan.run_name(weights)
        if run.is_dir():
            series = History(read_run(run).records).series("dev", "f1")
            lines.append(Line(name=plan.TITLES[weights], series=series, colour=colour))
    chart = draw_chart(Chart(title="F1 on dev", lines=tuple(lines), from_zero=True, wide=True))
    return f'<div class="charts">{chart}</div>'


def _samples(results: QuickstartResults) -> str:
    annotations = [spans for sample in results.samples for spans in (sample.gold, *sample.predicted.values())]
    labels = tuple(span.label for spans in annotations for span in spans)
    return "".join(_sample(sample, results, labels) for sample in results.samples)


def _sample(sample: Sample, results: QuickstartResults, labels: tuple[str, ...]) -> str:
    html = f"<h4>gold: {len(sample.gold)}</h4>{_draw(sample.text, sample.gold, labels)}"
    for row in reversed(results.rows):
        predicted = sample.predicted[row.initial_weights]
        correct = len(set(predicted) & set(sample.gold))
        title = f"{row.title}: {correct} correct of {len(predicted)} predicted"
        html += f"<h4>{escape(title)}</h4>{_draw(sample.text, predicted, labels)}"
    return f"<article><h3>{escape(sample.id)}</h3>{html}</article>"


def _commands(folder: Path, results: QuickstartResults) -> str:
    lines = "".join(
        f"<dt>{escape(purpose)}</dt><dd><code>{escape(command)}</code></dd>"
        for purpose, command in next_commands(str(folder), results)
    )
    return f"<dl class='commands'>{lines}</dl>"


def _links(folder: Path) -> str:
    runs = [run for run in plan.SHARES if (folder / run).is_dir()]
    items = "".join(f'<li><a href="{escape(run)}/report.html">{escape(run)}</a></li>' for run in runs)
    return f"<ul class='links'>{items}</ul>"


def next_commands(folder: str, results: QuickstartResults) -> list[tuple[str, str]]:
    """(purpose, command) pairs to try next: with the models of this quickstart, then with the user's own files."""
    commands = []
    if results.best is not None:
        run = f"{folder}/{plan.run_name(results.best.initial_weights)}"
        commands.append(
            (
                "find entities with the best model trained here, one text a line",
                f"spanlab predict {run} --input MINE.txt",
            )
        )
    commands += [
        (
            "repeat the quickstart on your own text, for longer",
            "spanlab quickstart --text MINE.txt --budget 30m --out mine",
        ),
        ("prepare a corpus of your own", f"spanlab prepare MINE.txt --tokenizer {plan.SPANBERT_NAME} --out my-corpus"),
        (
            "continue to pre-train on it",
            f"spanlab pretrain spanbert --data my-corpus --init {plan.SPANBERT_NAME} --out my-spanbert size=mini "
            "--budget 30m",
        ),
        ("fill masks with it", 'spanlab fill my-spanbert "She [MASK] [MASK] until the morning."'),
        ("check a labelled file", "spanlab data check ner TRAIN.jsonl"),
        (
            "fine-tune a model for your labels",
            "spanlab finetune ner --model my-spanbert --train TRAIN.jsonl --dev DEV.jsonl --out my-entities",
        ),
    ]
    return [*commands, *_reader_commands()]


def _reader_commands() -> list[tuple[str, str]]:
    """Commands with the reader, if it is in the box; the server is not in every version."""
    if "reader" not in NAMES:
        return []
    commands = [
        ("everything that the reader finds, one text a line", "spanlab predict reader --task all --input MINE.txt"),
        (
            'answers to your questions, {"question", "context"} a line',
            "spanlab predict reader --task qa --input MINE.jsonl",
        ),
    ]
    if find_spec("spanlab.cli.serve") is not None:
        commands.append(("ask it from a browser or from other programs", "spanlab serve reader"))
    return commands
