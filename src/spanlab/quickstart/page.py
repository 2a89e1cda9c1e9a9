"""The report of a quickstart: table of scores, curves, predictions for unseen text, commands to try next."""

from html import escape
from importlib import resources
from pathlib import Path
from typing import Literal

from spanlab.quickstart import plan
from spanlab.quickstart.results import QuickstartResults, Sample
from spanlab.report.curves import Chart, Line, draw_chart, draw_curves, smooth
from spanlab.report.number_format import duration
from spanlab.report.run_history import History, read_run
from spanlab.report.run_page import Section, html_page
from spanlab.tasks.spans.html import draw_spans

_NOISE = 3.0
"""Points of F1; the test files are small, and smaller differences are noise."""
_LEARNED = 20.0
"""Points of F1; a model below this has not learned its task."""
_METRIC_TITLES = {"f1": "F1", "exact_match": "exact"}
_COLOURS: dict[str, Literal["train", "dev", "third"]] = {
    plan.UNTRAINED: "train",
    plan.PRETRAINED: "dev",
    plan.MINILM: "third",
}


def header() -> tuple[str, ...]:
    """The titles of the columns of the table."""
    scores = (f"{task.title} {_METRIC_TITLES[metric]}" for task in plan.TASKS for metric in task.metrics)
    return ("initial weights", "pre-training", *scores)


def rows(results: QuickstartResults) -> list[tuple[str, ...]]:
    """The rows of the table, as text."""
    return [
        (
            row.title,
            row.pretraining,
            *(f"{row.scores[task.name][metric]:.1f}" for task in plan.TASKS for metric in task.metrics),
        )
        for row in results.rows
    ]


def remarks(results: QuickstartResults) -> list[str]:
    """How to read the scores, in sentences."""
    lines = [
        f"Test scores in percent: {results.tested['entities']} passages, {results.tested['questions']} questions, "
        "none of which was used for pre-training, training or model selection."
    ]
    before, after = results.row(plan.UNTRAINED), results.row(plan.PRETRAINED)
    if before is not None and after is not None:
        lines += [_gain(task, before.scores[task.name], after.scores[task.name]) for task in plan.TASKS]
    for task in plan.TASKS:
        best = results.best(task).scores[task.name][task.metrics[0]]
        if best < _LEARNED:
            lines.append(f"An F1 of {best:.1f} means that no model learned {task.title}; try a larger --budget.")
    if results.left_out:
        lines.append(f"Not in the table: {results.left_out}.")
    return lines


def _gain(task: plan.QuickstartTask, before: dict[str, float], after: dict[str, float]) -> str:
    gain = after[task.metrics[0]] - before[task.metrics[0]]
    line = f"Pre-training changed the F1 of {task.title} by {gain:+.1f} points"
    if gain > _NOISE:
        return f"{line}."
    if gain < -_NOISE:
        return f"{line}: it did not help."
    return f"{line}: within the noise of so few examples."


def quickstart_page(folder: Path, results: QuickstartResults) -> str:
    """The report of a quickstart whose runs are all finished, as HTML."""
    parts = [
        Section(title="Test scores", html=_table(results)),
        Section(title="Pre-training: losses by objective", html=_losses(folder, plan.PRETRAINED)),
        Section(title="Fine-tuning", html=_task_curves(folder, results)),
        Section(title="Entities in unseen text", html=_entity_samples(results)),
        Section(title="Answers in unseen text", html=_question_samples(results)),
        Section(title="What to try next", html=_commands(folder, results)),
        Section(title="Reports of the runs", html=_links(results)),
    ]
    if results.row(plan.MINILM) is not None:
        parts.insert(2, Section(title="MiniLM, continued: losses by objective", html=_losses(folder, plan.MINILM)))
    style = (resources.files("spanlab.quickstart") / "page.css").read_text(encoding="utf-8")
    return html_page("SpanLab quickstart", _headline(results), parts, style)


def _headline(results: QuickstartResults) -> str:
    facts = {
        "time": duration(results.seconds),
        "models compared": str(len(results.rows)),
        "test passages": f"{results.tested['entities']:,}",
        "test questions": f"{results.tested['questions']:,}",
    }
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    intro = "A tokenizer, a corpus, pre-training, fine-tuning and scores, all made on this machine."
    return f"<header><h1>SpanLab quickstart</h1><p>{intro}</p><dl>{listed}</dl></header>"


def _table(results: QuickstartResults) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header())
    body = "".join(
        f"<tr><th>{escape(row[0])}</th><td class='words'>{escape(row[1])}</td>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[2:])
        + "</tr>"
        for row in rows(results)
    )
    notes = "".join(f"<p>{escape(line)}</p>" for line in remarks(results))
    return f'<table class="courses scores"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}'


def _losses(folder: Path, run: str) -> str:
    return draw_curves(History(read_run(folder / run).records))["Loss"]


def _task_curves(folder: Path, results: QuickstartResults) -> str:
    """The training loss and the dev score of each task, one line for each set of initial weights."""
    charts = []
    for task in plan.TASKS:
        losses, scores = [], []
        for row in results.rows:
            history = History(read_run(folder / plan.run_name(row.initial_weights, task)).records)
            colour = _COLOURS[row.initial_weights]
            losses.append(Line(name=row.title, series=smooth(history.series("train", "loss")), colour=colour))
            scores.append(Line(name=row.title, series=history.series("dev", task.metrics[0]), colour=colour))
        charts += [
            Chart(title=f"{task.title}: training loss", lines=tuple(losses)),
            Chart(title=f"{task.title}: F1 on dev", lines=tuple(scores), from_zero=True),
        ]
    return f'<div class="charts">{"".join(map(draw_chart, charts))}</div>'


def _entity_samples(results: QuickstartResults) -> str:
    annotations = [spans for sample in results.entities for spans in (sample.gold, *sample.predicted.values())]
    labels = [span.label for spans in annotations for span in spans]
    return "".join(_entity_sample(sample, results, labels) for sample in results.entities)


def _entity_sample(sample: Sample, results: QuickstartResults, labels: list[str]) -> str:
    annotations = [(f"gold: {len(sample.gold)}", sample.gold)]
    for row in reversed(results.rows):
        predicted = sample.predicted[row.initial_weights]
        correct = len(set(predicted) & set(sample.gold))
        annotations.append((f"{row.title}: {correct} correct of {len(predicted)} predicted", predicted))
    html = ""
    for title, spans in annotations:
        triples = [(span.start, span.end, span.label) for span in spans]
        html += f"<h4>{escape(title)}</h4>{draw_spans(sample.text, triples, labels)}"
    return f"<article><h3>{escape(sample.id)}</h3>{html}</article>"


def _question_samples(results: QuickstartResults) -> str:
    """The questions with every model's answer, and each passage with the answers of the best model marked."""
    best = results.best(plan.TASKS[1])
    head = "".join(
        f"<th>{escape(title)}</th>" for title in ("", "question", "gold", *(row.title for row in results.rows))
    )
    body = "".join(_answers(number, sample, results) for number, sample in enumerate(results.questions, start=1))
    marked: dict[str, list[tuple[int, int, str]]] = {}
    for number, sample in enumerate(results.questions, start=1):
        spans = sample.predicted[best.initial_weights]
        marked.setdefault(sample.text, []).extend((span.start, span.end, f"answer {number}") for span in spans)
    texts = "".join(f"<article>{draw_spans(text, spans)}</article>" for text, spans in marked.items())
    caption = f"<p>Answers of the best model (initial weights: {escape(best.title)}) in their context:</p>"
    return f"<table class='answers'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{caption}{texts}"


def _answers(number: int, sample: Sample, results: QuickstartResults) -> str:
    gold_answers = {sample.answer((span,)) for span in sample.gold} or {""}
    cells = "".join(
        f"<td class='{'right' if answer in gold_answers else 'wrong'}'>{escape(answer) or '<i>no answer</i>'}</td>"
        for answer in (sample.answer(sample.predicted[row.initial_weights]) for row in results.rows)
    )
    gold = escape(" / ".join(sorted(gold_answers))) or "<i>no answer</i>"
    return f"<tr><th>{number}</th><td>{escape(sample.question)}</td><td>{gold}</td>{cells}</tr>"


def _commands(folder: Path, results: QuickstartResults) -> str:
    lines = "".join(
        f"<dt>{escape(purpose)}</dt><dd><code>{escape(command)}</code></dd>"
        for purpose, command in next_commands(str(folder), results)
    )
    return f"<dl class='commands'>{lines}</dl>"


def _links(results: QuickstartResults) -> str:
    all_weights = [row.initial_weights for row in results.rows]
    runs = [name for name in plan.SHARES if name.partition("-")[0] in all_weights]
    items = "".join(f'<li><a href="{escape(run)}/report.html">{escape(run)}</a></li>' for run in runs)
    return f"<ul class='links'>{items}</ul>"


def next_commands(folder: str, results: QuickstartResults) -> list[tuple[str, str]]:
    """(purpose, command) pairs to try next: with the models of this quickstart, then with the user's own files."""
    entities, questions = plan.TASKS
    ner_run = f"{folder}/{plan.run_name(results.best(entities).initial_weights, entities)}"
    qa_run = f"{folder}/{plan.run_name(results.best(questions).initial_weights, questions)}"
    return [
        ("find the entities of your text, one text a line", f"spanlab predict {ner_run} --input MINE.txt"),
        (
            'answer your questions, {"question", "context"} a line',
            f"spanlab predict {qa_run} --input MINE.jsonl",
        ),
        (
            "predict masked tokens with the pre-trained model",
            f'spanlab fill {folder}/{plan.PRETRAINED} "The [MASK] [MASK] of the function is returned."',
        ),
        (
            "repeat the quickstart on your own text, for longer",
            "spanlab quickstart --text MINE.txt --budget 30m --out mine",
        ),
        (
            "train a tokenizer on your own text",
            "spanlab tokenizer train MINE.txt --type wordpiece --vocab-size 16000 --out my-tokenizer",
        ),
        ("prepare a corpus", "spanlab prepare MINE.txt --tokenizer my-tokenizer --out my-corpus"),
        (
            "pre-train a SpanBERT; --dry-run estimates the time",
            "spanlab pretrain spanbert --data my-corpus --out my-spanbert size=mini",
        ),
        ("check a labelled file", "spanlab data check ner TRAIN.jsonl"),
        (
            "fine-tune a model for your labels",
            "spanlab finetune ner --model my-spanbert --train TRAIN.jsonl --dev DEV.jsonl --out my-entities",
        ),
    ]
