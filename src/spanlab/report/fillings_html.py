"""Masked sentences as a model filled them before and after training, side by side."""

from collections.abc import Mapping, Sequence
from html import escape

from spanlab.inference.fill_result import Candidate, FillResult, Law, Run

_TIMES = {"before": "before training", "after": "after training"}
_LAWS: dict[Law, str] = {"mlm": "MLM", "mlm+sbo": "MLM and SBO"}
_SHOWN = 3
"""Candidates shown for a mask."""


def draw_fillings(fillings: Mapping[str, Sequence[FillResult]]) -> str:
    """A card for every sentence; empty without fillings."""
    by_time = {time: {result.text: result for result in fillings.get(time, ())} for time in _TIMES}
    texts = dict.fromkeys(text for found in by_time.values() for text in found)
    return "".join(_card({time: found[text] for time, found in by_time.items() if text in found}) for text in texts)


def _card(by_time: Mapping[str, FillResult]) -> str:
    """One sentence at each time."""
    any_time = next(iter(by_time.values()))
    masked = _with_runs(any_time, ["&nbsp;·&nbsp;" * len(run.places) for run in any_time.runs])
    columns = "".join(
        f"<div><h4>{_TIMES[time]}</h4>{_filled(result)}{_candidates(result)}</div>" for time, result in by_time.items()
    )
    return f'<article class="filling"><p class="masked">{masked}</p><div>{columns}</div></article>'


def _filled(result: FillResult) -> str:
    """The sentence by each law that filled it."""
    lines = []
    for law, name in _LAWS.items():
        if any(law in run.fillings for run in result.runs):
            best = [_best(run, law) for run in result.runs]
            sentence = _with_runs(result, [escape(text) for text, _ in best])
            score = sum(score for _, score in best) / len(best)
            mean = f'<small title="mean log probability of a token">{score:.2f}</small>'
            lines.append(f'<p class="law"><small>{name}</small><span>{sentence}</span>{mean}</p>')
    return "".join(lines)


def _best(run: Run, law: Law) -> tuple[str, float]:
    """A run's best filling and its score; by MLM where the law cannot be applied to it."""
    best = run.fillings.get(law, run.fillings["mlm"])[0]
    return best.text, best.score


def _with_runs(result: FillResult, insides: Sequence[str]) -> str:
    """The text, escaped, with HTML in the place of every run."""
    html, done = "", 0
    for run, inside in zip(result.runs, insides, strict=True):
        html += f"{escape(result.text[done : run.start])}<mark>{inside}</mark>"
        done = run.end
    return html + escape(result.text[done:])


def _candidates(result: FillResult) -> str:
    places = [place for run in result.runs for place in run.places]
    both = any(place.sbo is not None for place in places)
    head = "<th></th><th>MLM</th>" + ("<th>SBO</th>" if both else "")
    rows = []
    for number, place in enumerate(places, start=1):
        by_sbo = f"<td>{_listed(place.sbo or ())}</td>" if both else ""
        rows.append(f"<tr><th>{number}</th><td>{_listed(place.mlm)}</td>{by_sbo}</tr>")
    return f"<details><summary>candidates</summary><table><tr>{head}</tr>{''.join(rows)}</table></details>"


def _listed(candidates: Sequence[Candidate]) -> str:
    return ", ".join(map(_candidate, candidates[:_SHOWN]))


def _candidate(one: Candidate) -> str:
    mark = "" if one.begins_word else "·"
    return f"{mark}{escape(one.text) or '␣'} <small>{100 * one.probability:.2g} %</small>"
