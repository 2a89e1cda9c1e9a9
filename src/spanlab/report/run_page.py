"""A run as one self-contained HTML page: `report.html`.

What enters is the folder of a run, of pre-training or of a task, finished or under way; what leaves is the page:
progress and metrics, curves, notes, masks filled before and after training, the config and the environment. A section
without content is left out. A fine-tuning run adds sections of its task: scores by label, confusions and worst errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from spanlab.inference.fill_result import Candidate, FillMethod, FillResult
from spanlab.metrics.classification import ConfusionMatrix
from spanlab.report.curves import draw_curves, metric_label
from spanlab.report.number_format import duration, plain, share, size
from spanlab.report.run_history import Course, History, RunFiles, RunSummary, read_run, summarise
from spanlab.tasks.result import Mistake, Scores

_MOST_NOTES = 200
_MOST_MISTAKES = 30
_MOST_LABELS = 40
"""A larger confusion matrix is not drawn; the scores by label are."""
_MOST_CANDIDATES = 3
"""Candidates shown for a mask."""
_TIMES = {"before": "before training", "after": "after training"}
_METHODS: dict[FillMethod, str] = {"mlm": "MLM", "mlm+sbo": "MLM and SBO"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page with a title."""

    title: str
    html: str
    """Inserted as it is: text from files must be escaped already."""


def run_page(run_folder: str | Path, sections: Sequence[Section] = ()) -> str:
    """The page of a run; `sections` come after the curves."""
    run = read_run(run_folder)
    history = History(run.records)
    summary = summarise(run, history)
    parts = [
        Section(title="Scores", html=_courses(summary)),
        *(Section(title=title, html=html) for title, html in draw_curves(history).items()),
        *sections,
        Section(title="Notes", html=_notes(history)),
        Section(title="Fillings", html=_fillings(run.fillings)),
        Section(title="Config", html=f"<pre>{escape(run.config_text)}</pre>" if run.config_text.strip() else ""),
        Section(title="Environment", html=_environment(run)),
    ]
    return html_page(summary.title, _headline(run, summary), parts)


def html_page(title: str, headline: str, parts: Sequence[Section], style: str = "") -> str:
    """A page in SpanLab's style: a headline and the sections that are not empty; `style` is CSS to add."""
    body = "".join(
        f"<section><h2>{escape(part.title)}</h2>{part.html}</section>" for part in parts if part.html.strip()
    )
    css = (resources.files("spanlab.report") / "run_page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{css}{style}</style>
</head>
<body><main>
{headline}
{body}
</main></body>
</html>
"""


def _headline(run: RunFiles, summary: RunSummary) -> str:
    of = f" of {summary.steps:,}" if summary.steps else ""
    facts = [("steps", f"{summary.step:,}{of}")]
    if summary.seconds is not None:
        facts.append(("time", duration(summary.seconds)))
    if summary.tokens_per_second is not None:
        facts.append(("tokens per second", f"{summary.tokens_per_second:,.0f}"))
    if summary.peak_share is not None:
        facts.append(("of the machine's peak", share(summary.peak_share)))
    if summary.memory_gb is not None:
        facts.append(("memory", size(round(summary.memory_gb * 1e9))))
    if summary.best_step is not None:
        facts.append(("best model", f"step {summary.best_step:,}"))
    listed = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    message = f"<p>{escape(summary.message)}</p>" if summary.message else ""
    done = 100 * summary.step / summary.steps if summary.steps else 100
    bar = f'<div class="progress"><div style="width:{min(100.0, done):.1f}%"></div></div>'
    state = f'<span class="state {escape(summary.state)}">{escape(summary.state)}</span>'
    name = escape(run.folder.resolve().name)
    return (
        f"<header><h1>{escape(summary.title)} {state}</h1><small>{name}</small>{message}{bar}<dl>{listed}</dl></header>"
    )


def _courses(summary: RunSummary) -> str:
    if not summary.courses:
        return ""
    rows = "".join(_course(course) for course in summary.courses)
    return (
        '<table class="courses"><thead><tr><th></th><th colspan="2">training</th><th colspan="3">held-out</th></tr>'
        "<tr><th></th><th>first</th><th>now</th><th>first</th><th>now</th><th>best</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _course(course: Course) -> str:
    values = (course.train_first, course.train_now, course.dev_first, course.dev_now)
    cells = "".join(f"<td>{_metric(value)}</td>" for value in values)
    best = _metric(course.dev_best)
    if course.dev_best_step is not None:
        best = f"<b>{best}</b> <small>step {course.dev_best_step:,}</small>"
    return f"<tr><th>{escape(metric_label(course.name))}</th>{cells}<td>{best}</td></tr>"


def _metric(value: float | None) -> str:
    return "—" if value is None else f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"


def _notes(history: History) -> str:
    shown = history.notes[-_MOST_NOTES:]
    left = len(history.notes) - len(shown)
    items = "".join(f"<li><b>step {note.step:,}</b> {escape(note.text)}</li>" for note in shown)
    more = f"<p>{left:,} earlier ones are in metrics.jsonl.</p>" if left else ""
    return f"{more}<ul class='notes'>{items}</ul>" if items else ""


def _environment(run: RunFiles) -> str:
    rows = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(plain(value))}</td></tr>"
        for name, value in run.environment.items()
    )
    return f'<table class="environment">{rows}</table>' if rows else ""


def _fillings(fillings: Mapping[str, Sequence[FillResult]]) -> str:
    """A card for every masked text, filled before and after training side by side; empty without fillings."""
    by_time = {time: {result.text: result for result in fillings.get(time, ())} for time in _TIMES}
    texts = dict.fromkeys(text for results in by_time.values() for text in results)
    return "".join(
        _filling_card({time: results[text] for time, results in by_time.items() if text in results}) for text in texts
    )


def _filling_card(by_time: Mapping[str, FillResult]) -> str:
    """One text at each time."""
    any_time = next(iter(by_time.values()))
    masked = _with_runs(any_time, ["&nbsp;·&nbsp;" * len(run.places) for run in any_time.runs])
    columns = "".join(
        f"<div><h4>{_TIMES[time]}</h4>{_filled(result)}{_candidates(result)}</div>" for time, result in by_time.items()
    )
    return f'<article class="filling"><p class="masked">{masked}</p><div>{columns}</div></article>'


def _filled(result: FillResult) -> str:
    """The text filled by the MLM head, and by both heads where there are two."""
    lines = []
    for method, name in _METHODS.items():
        if any(method in run.fillings for run in result.runs):
            # A run that the SBO head cannot fill is filled by MLM alone.
            best = [run.fillings.get(method, run.fillings["mlm"])[0] for run in result.runs]
            sentence = _with_runs(result, [escape(filling.text) for filling in best])
            score = sum(filling.score for filling in best) / len(best)
            mean = f'<small title="mean log probability of a token">{score:.2f}</small>'
            lines.append(f'<p class="law"><small>{name}</small><span>{sentence}</span>{mean}</p>')
    return "".join(lines)


def _with_runs(result: FillResult, replacements: Sequence[str]) -> str:
    """The text, escaped, with every run of masks replaced by HTML."""
    html, done = "", 0
    for run, replacement in zip(result.runs, replacements, strict=True):
        html += f"{escape(result.text[done : run.start])}<mark>{replacement}</mark>"
        done = run.end
    return html + escape(result.text[done:])


def _candidates(result: FillResult) -> str:
    masks = [mask for run in result.runs for mask in run.places]
    both = any(mask.sbo is not None for mask in masks)
    head = "<th></th><th>MLM</th>" + ("<th>SBO</th>" if both else "")
    rows = []
    for number, mask in enumerate(masks, start=1):
        by_sbo = f"<td>{_candidate_list(mask.sbo or ())}</td>" if both else ""
        rows.append(f"<tr><th>{number}</th><td>{_candidate_list(mask.mlm)}</td>{by_sbo}</tr>")
    return f"<details><summary>candidates</summary><table><tr>{head}</tr>{''.join(rows)}</table></details>"


def _candidate_list(candidates: Sequence[Candidate]) -> str:
    return ", ".join(
        f"{'' if candidate.begins_word else '·'}{escape(candidate.text) or '␣'} "
        f"<small>{100 * candidate.probability:.2g} %</small>"
        for candidate in candidates[:_MOST_CANDIDATES]
    )


def task_sections(scores: Scores | None, mistakes: Sequence[Mistake]) -> tuple[Section, ...]:
    """Sections for the last evaluation of a fine-tuning run; none without one."""
    if scores is None:
        return ()
    parts = [Section(title="Scores by label", html=_label_scores(scores))] if scores.per_label else []
    if scores.confusion is not None and len(scores.confusion.labels) <= _MOST_LABELS:
        parts.append(Section(title="Confusion matrix", html=_confusion(scores.confusion)))
    if mistakes:
        parts.append(Section(title="Worst errors", html=_mistakes(mistakes, scores.count)))
    return tuple(parts)


def _label_scores(scores: Scores) -> str:
    rows = "".join(
        f"<tr><td>{escape(label)}</td><td>{row.precision:.1f}</td><td>{row.recall:.1f}</td>"
        f"<td>{row.f1:.1f}</td><td>{row.support:,}</td></tr>"
        for label, row in scores.per_label.items()
    )
    head = "<tr><th>label</th><th>precision</th><th>recall</th><th>F1</th><th>examples</th></tr>"
    return f"<table>{head}{rows}</table>"


def _confusion(matrix: ConfusionMatrix) -> str:
    """Rows are gold labels, columns predicted ones; the darker a cell, the larger its share of the row."""
    head = "".join(f"<th>{escape(label)}</th>" for label in matrix.labels)
    rows = "".join(
        f"<tr><th>{escape(label)}</th>{''.join(_confusion_cell(count, sum(counts)) for count in counts)}</tr>"
        for label, counts in zip(matrix.labels, matrix.counts, strict=True)
    )
    return f"<table><tr><th>gold \\ predicted</th>{head}</tr>{rows}</table>"


def _confusion_cell(count: int, row_total: int) -> str:
    ratio = count / row_total if row_total else 0.0
    return f"<td style='text-align:right;background:rgba(74,144,217,{0.8 * ratio:.3f})'>{count:,}</td>"


def _mistakes(mistakes: Sequence[Mistake], count: int) -> str:
    rows = "".join(
        f"<tr><td>{mistake.shown}</td><td>{escape(mistake.gold)}</td><td>{escape(mistake.predicted)}</td>"
        f"<td>{mistake.badness:.3f}</td></tr>"
        for mistake in mistakes[:_MOST_MISTAKES]
    )
    head = "<tr><th>input</th><th>gold</th><th>predicted</th><th>how wrong</th></tr>"
    return f"<p>{len(mistakes):,} of {count:,} are wrong.</p><table>{head}{rows}</table>"
