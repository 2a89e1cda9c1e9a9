"""A run as one HTML page that needs nothing beside it: `report.html`.

What enters is a run folder, of pre-training or of a task, done or going on; what leaves is the page: how far it is and
its losses, curves, notes, fillings before and after, the config and the environment. What the folder does not hold has
no section. A caller adds sections of its own, such as a task's errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from spanlab.report.fillings_html import draw_fillings
from spanlab.report.number_format import duration, plain, share, size
from spanlab.report.run_curves import draw_curves, label
from spanlab.report.run_files import RunFiles, read_run
from spanlab.report.run_history import History
from spanlab.report.run_summary import Course, RunSummary, summarise

_MOST_NOTES = 200


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page with a title."""

    title: str
    html: str
    """Markup as it is: whoever makes it escapes what comes from a file."""


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
        Section(title="Fillings", html=draw_fillings(run.fillings)),
        Section(title="Config", html=f"<pre>{escape(run.config_text)}</pre>" if run.config_text.strip() else ""),
        Section(title="Environment", html=_environment(run)),
    ]
    return html_page(summary.title, _headline(run, summary), parts)


def html_page(title: str, headline: str, parts: Sequence[Section], style: str = "") -> str:
    """A page in the house's style: a headline and the sections that hold anything; `style` is laid over the style."""
    body = "".join(
        f"<section><h2>{escape(part.title)}</h2>{part.html}</section>" for part in parts if part.html.strip()
    )
    own = (resources.files("spanlab.report") / "run_page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{own}{style}</style>
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
        facts.append(("tokens a second", f"{summary.tokens_per_second:,.0f}"))
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
    plain = (course.train_first, course.train_now, course.dev_first, course.dev_now)
    cells = "".join(f"<td>{_figure(value)}</td>" for value in plain)
    best = _figure(course.dev_best)
    if course.dev_best_step is not None:
        best = f"<b>{best}</b> <small>step {course.dev_best_step:,}</small>"
    return f"<tr><th>{escape(label(course.name))}</th>{cells}<td>{best}</td></tr>"


def _figure(value: float | None) -> str:
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
