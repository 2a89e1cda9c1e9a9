"""The files of a study: `results.json` for programs, `table.md` to paste, `report.html` to look at.

Seconds and joules are in the table and on the page, not among the results: they differ from session to session.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from spanlab.atomic_io import write_atomically, write_json
from spanlab.compare.cells import ENERGY, Cell, FinetuningCell
from spanlab.compare.plan import StudyPlan
from spanlab.compare.results import Comparison, StudyResults
from spanlab.compare.sentence import amount, p_text, sum_up
from spanlab.markdown import plain
from spanlab.report.curves import COLOURS, Chart, Line, draw_chart, metric_label
from spanlab.report.number_format import duration, short
from spanlab.report.run_history import History, Series, read_run
from spanlab.report.run_page import Section, html_page
from spanlab.strict_parsing import read_json
from spanlab.training.run_folder import METRICS, RunFolder

RESULTS, TABLE, PAGE = "results.json", "table.md", "report.html"
_NOT_A_SCORE = ("perplexity", "unigram")
_POINTS = 60
_HARMLESS = re.compile(r"[A-Za-z0-9 .,:;±−—()=/%]*")
"""A cell that Markdown shows as it is."""
Rows = list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of plain text."""

    title: str
    head: list[str]
    rows: Rows
    note: str = ""


def write_results(plan: StudyPlan, results: StudyResults) -> None:
    """Write all three files."""
    tables = [*score_tables(results), _cost_table(plan, results), _failure_table(results)]
    charts = Section(title="Learning curves", html=_curves(plan, results))
    write_files(plan.out, results, [table for table in tables if table.rows], [charts])


def write_files(out: Path, results: StudyResults, tables: Sequence[Table], sections: Sequence[Section] = ()) -> None:
    """Write the results, their tables and a page with further sections."""
    sentence = sum_up(results)
    write_json(out / RESULTS, {"sentence": sentence, **results.to_dict()})
    remarks = "".join(f"\n- {plain(remark)}" for remark in results.remarks)
    markdown = "\n\n".join([_capital(plain(sentence)), *map(_markdown, tables)])
    write_atomically(out / TABLE, f"{markdown}\n{remarks}\n".encode())
    notes = "".join(f"<li>{escape(remark)}</li>" for remark in results.remarks)
    parts = [
        *(Section(title=table.title, html=_html(table)) for table in tables[:2]),
        *sections,
        *(Section(title=table.title, html=_html(table)) for table in tables[2:]),
        Section(title="Remarks", html=f"<ul class='notes'>{notes}</ul>" if notes else ""),
    ]
    headline = f"<header><h1>Comparison</h1><p>{escape(_capital(sentence))}</p></header>"
    write_atomically(out / PAGE, html_page("Comparison", headline, parts).encode())


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def score_tables(results: StudyResults) -> list[Table]:
    """The scores of every system, and its differences to the baseline."""
    return [_score_table(results), _difference_table(results)]


def _score_table(results: StudyResults) -> Table:
    head = ["", *(f"{task} ({facts.get('metric', '—')})" for task, facts in results.tasks.items())]
    rows = [[system, *(_score(results, task, system) for task in results.tasks)] for system in results.systems]
    seeds = len(results.seeds)
    note = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else ""
    return Table(title="Scores", head=head, rows=rows, note=note)


def _score(results: StudyResults, task: str, system: str) -> str:
    scores = results.scores[task].get(system)
    if scores is None:
        return "—"
    spread = "" if scores.deviation is None else f" ± {amount(scores.deviation, scores.metric)}"
    missing = "" if len(scores.by_seed) == len(results.seeds) else f" ({len(scores.by_seed)} of {len(results.seeds)})"
    return f"{amount(scores.mean, scores.metric)}{spread}{missing}"


def _difference_table(results: StudyResults) -> Table:
    head = ["task", "", f"difference to {results.systems[0]}", "95 % interval", "p", "p (Holm)", "P(better)", "verdict"]
    rows = [_difference_row(comparison, results) for comparison in results.comparisons]
    note = (
        "p: two-sided, by seeds and test units together; Holm: corrected for all rows; P(better): the chance that a "
        "run scores above one of the baseline with the same seed; a difference that could have been noticed has "
        "p < 0.05 in four of five such studies"
    )
    return Table(title="Differences", head=head, rows=rows, note=note)


def _difference_row(comparison: Comparison, results: StudyResults) -> list[str]:
    found = comparison.difference
    if found is None:
        return [comparison.task, comparison.system, "—", "—", "—", "—", "—", "too few finished runs"]
    metric = results.scores[comparison.task][comparison.system].metric
    verdict = "above" if found.mean > 0 else "below"
    if comparison.same:
        verdict = "the same scores"
    elif not comparison.shown:
        verdict = f"no difference shown; {amount(found.detectable, metric)} could have been"
    return [
        comparison.task,
        comparison.system,
        amount(found.mean, metric),
        f"{amount(found.low, metric)} to {amount(found.high, metric)}",
        p_text(found.p).removeprefix("= "),
        p_text(comparison.p_holm).removeprefix("= "),
        f"{found.win_chance:.2f}",
        verdict,
    ]


def _cost_table(plan: StudyPlan, results: StudyResults) -> Table:
    """Steps, tokens, seconds and joules by recipe, means over its runs."""
    head = ["", "steps", "tokens", "pre-training", *(f"fine-tuning {task}" for task in plan.tasks), "energy"]
    rows = []
    for recipe in plan.recipes:
        facts = results.trained[recipe.name]
        cells: list[Cell] = [*plan.pretraining, *plan.finetuning]
        own = [cell for cell in cells if cell.recipe == recipe.name and cell.finished]
        stages = [None, *plan.tasks]
        seconds = [_mean([_seconds(cell) for cell in own if _stage(cell) == stage], duration) for stage in stages]
        joules = [_joules(cell) for cell in own]
        whole = sum(value for value in joules if value is not None)
        energy = f"{short(whole)} J in all" if joules and None not in joules else "not known"
        rows.append([recipe.name, short(facts["steps"]), short(facts["tokens"]), *seconds, energy])
    return Table(title="Cost of a run", head=head, rows=rows, note="energy: of the whole processor, by RAPL")


def _stage(cell: Cell) -> str | None:
    return cell.task if isinstance(cell, FinetuningCell) else None


def _mean(values: Sequence[float | None], write: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return write(float(np.mean(known))) if known else "—"


def _seconds(cell: Cell) -> float | None:
    return RunFolder(cell.folder).read_status().seconds


def _joules(cell: Cell) -> float | None:
    path = cell.folder / ENERGY
    return float(read_json(path)["joules"]) if path.is_file() else None


def _failure_table(results: StudyResults) -> Table:
    rows = [[cell.recipe, str(cell.seed), cell.task or "pre-training", cell.error or ""] for cell in results.failed]
    return Table(
        title="Failed runs", head=["", "seed", "", "error"], rows=rows, note="the same command tries them again"
    )


def _curves(plan: StudyPlan, results: StudyResults) -> str:
    """The held-out metrics that recipes share, and the dev scores of each task, means over the seeds."""
    histories = {
        (cell.recipe, cell.seed): History(read_run(cell.folder).records)
        for cell in plan.pretraining
        if (cell.folder / METRICS).is_file()
    }
    charts = _charts(results.systems, histories)
    for task in plan.tasks:
        tuned = {
            (cell.recipe, cell.seed): History(read_run(cell.folder).records)
            for cell in plan.finetuning
            if cell.task == task and (cell.folder / METRICS).is_file()
        }
        metric = str(results.tasks[task].get("metric"))
        charts += _charts(results.systems, tuned, f"{task}, ", only=metric)
    drawn = "".join(map(draw_chart, charts))
    return f'<div class="charts">{drawn}</div>' if drawn else ""


def _charts(
    systems: Sequence[str], histories: Mapping[tuple[str, int], History], prefix: str = "", only: str | None = None
) -> list[Chart]:
    names = dict.fromkeys(name for history in histories.values() for name in history.names("dev"))
    # The sum of several losses says something only beside sums of the same ones.
    parts = {tuple(name for name in history.names("dev") if name.startswith("loss.")) for history in histories.values()}
    sums = {"loss"} if len(parts) > 1 or any(len(losses) == 1 for losses in parts) else set()
    hidden = {name for name in names if name.partition(".")[0] in _NOT_A_SCORE} | sums
    shown = [name for name in names if name not in hidden and only in (None, name)]
    charts = []
    for name in shown:
        lines = []
        for index, system in enumerate(systems):
            runs = [history.series("dev", name) for (recipe, _), history in histories.items() if recipe == system]
            runs = [run for run in runs if len(run)]
            if runs:
                colour = COLOURS[index % len(COLOURS)]
                lines.append(Line(name=system, series=mean_series(runs), colour=colour))
        if len(lines) > 1:
            charts.append(Chart(title=f"{prefix}{metric_label(name)}, held out", lines=tuple(lines)))
    return charts


def mean_series(runs: Sequence[Series]) -> Series:
    """The mean of several runs, on the steps that all have reached."""
    end = min(run.steps[-1] for run in runs)
    steps = np.unique(np.concatenate([run.steps[run.steps <= end] for run in runs]))
    steps = steps[np.unique(np.linspace(0, len(steps) - 1, min(_POINTS, len(steps))).astype(np.int64))]
    values = np.mean([np.interp(steps, run.steps, run.values) for run in runs], axis=0)
    return Series(steps, values)


def _markdown(table: Table) -> str:
    lines = [[cell if _HARMLESS.fullmatch(cell) else plain(cell) for cell in row] for row in (table.head, *table.rows)]
    body = ["| " + " | ".join(line) + " |" for line in lines]
    body.insert(1, "|" + "---|" * len(table.head))
    note = f"\n\n{_capital(table.note)}." if table.note else ""
    return f"## {table.title}\n\n" + "\n".join(body) + note


def _html(table: Table) -> str:
    if not table.rows:
        return ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for tag, cell in zip(_tags(row), row, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = f"<p><small>{escape(_capital(table.note))}.</small></p>" if table.note else ""
    return f'<table class="courses"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}'


def _tags(row: Sequence[str]) -> list[str]:
    return ["th", *["td"] * (len(row) - 1)]
