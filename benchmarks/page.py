"""The page of measurements and the README's table, from the RESULT lines of a run; nothing on them is typed by hand.

What enters are the lines of `results.jsonl` (`benchmarks.run_all`); what leaves is Markdown. A result's `ratios` are
tables, its `curves` pictures with exponents, its `cannot` what a peer is unable to do; the rest is listed as it is.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spanlab import markdown
from spanlab.report.number_format import duration, plain, short

Entry = Mapping[str, Any]
NOT_LISTED = frozenset({"ratios", "cannot", "curves", "torch", "bf16_instructions"})
"""Of a result: what has a place of its own on the page."""


def render_page(
    entries: Sequence[Entry], machine: Entry, *, titles: Mapping[str, str], by_hand: Mapping[str, str]
) -> str:
    """The whole page; `by_hand` are commands that are not part of the run, and why."""
    done = [entry for entry in entries if entry["status"] == "done"]
    command = "make bench QUICK=1" if machine.get("quick") else "make bench"
    parts = [
        "# Benchmarks",
        f"<!-- Written by `{command}`: do not edit. -->",
        f"Measured by `{command}`, begun {machine['date']}. Both sides of a ratio took turns in one run here:",
        _table(("", ""), _machine_rows(machine)),
        "A ratio above 1 means that SpanLab is faster, or needs less memory. It compares the best round of each side; "
        "the ratios within single rounds range as given. Load is the system's average over a minute when a benchmark "
        "began and when it ended, the benchmark itself included; beside it is the share of the processor that other "
        "programs used meanwhile.",
    ]
    for entry in done:
        parts += _section(entry, titles.get(entry["name"], entry["name"]))
    parts += _list("## What peers cannot do", _unable(done))
    parts += _list("## Not measured", [_not_measured(entry) for entry in entries if entry["status"] != "done"])
    parts += _list(
        "## Measured on their own",
        [f"`{command}`: {why}" for command, why in by_hand.items()],
        "These train models, or measure no speed; each prints its result.",
    )
    return "\n\n".join(parts) + "\n"


def render_ratios(entries: Sequence[Entry], machine: Entry) -> str:
    """The table of the README: the headline ratios, variants of a comparison in one row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        for ratio in entry.get("result", {}).get("ratios", ()) if entry["status"] == "done" else ():
            if ratio["headline"]:
                key = (ratio["what"], ratio["peer"], ratio["quantity"])
                rows.setdefault(key, []).append(f"{ratio['variant']} {_times(ratio['ratio'])}".strip())
    cells = [
        (what if quantity == "time" else f"{what}, peak memory", peer, ", ".join(found))
        for (what, peer, quantity), found in rows.items()
    ]
    has = " and ".join(machine["instructions"][-2:]) or "no vector instructions that are known here"
    bf16 = "with" if machine["bf16_instructions"] else "without"
    sentence = (
        f"Each ratio was measured side by side in one run, on {machine['cores']} cores of {machine['cpu']} with {has}, "
        f"{bf16} bf16 instructions."
    )
    return f"{sentence}\n\n{_table(('what', 'compared with', 'ratio'), cells)}\n"


def replace_written(text: str, name: str, written: str) -> str:
    """A page with new content between the marks of what is measured."""
    marks = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end of measured -->)", re.DOTALL)
    replaced, count = marks.subn(lambda match: match[1] + written + match[2], text)
    if count != 1:
        raise SystemExit(f"the marks of `measured: {name}` are on the page {count} times, and must be there once")
    return replaced


def _machine_rows(machine: Entry) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return [
        ("processor", f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB of memory"),
        ("instructions", ", ".join(machine["instructions"]) or "unknown"),
        ("system", f"{machine['system']}, Python {machine['python']}"),
        ("versions", versions),
        ("threads", f"{machine['threads']}, where a benchmark does not name another number"),
        ("load before", ", ".join(map(str, machine["load"])) + " (1, 5 and 15 minutes)"),
    ]


def _section(entry: Entry, title: str) -> Iterator[str]:
    """One benchmark: how it ran, its ratios, its pictures, and its other figures."""
    result = entry["result"]
    busy = f", other programs {entry['others']:.0%} of the processor" if "others" in entry else ""
    load = " to ".join(map(str, entry["load"]))
    yield f"## {title}"
    yield f"`{entry['command']}`: {duration(entry['seconds'])}, load {load}{busy}."
    if ratios := result.get("ratios"):
        cells = [
            (
                f"{ratio['what']}{', ' if ratio['variant'] else ''}{ratio['variant']}",
                ratio["peer"],
                _times(ratio["ratio"]) + (" less memory" if ratio["quantity"] == "memory" else ""),
                _spread(ratio["rounds"]),
            )
            for ratio in ratios
        ]
        yield _table(("what", "compared with", "ratio", "rounds"), cells)
    yield from _curves(result.get("curves", ()))
    figures = [f"{name.replace('_', ' ')} {plain(value)}" for name, value in result.items() if name not in NOT_LISTED]
    if figures:
        yield "Other figures: " + "; ".join(map(markdown.plain, figures)) + "."


def _curves(curves: Iterable[Entry]) -> Iterator[str]:
    """A table of exponents, and the pictures."""
    found = list(curves)
    if not found:
        return
    cells = [
        (
            curve["of"],
            curve["against"],
            f"{short(curve['x'][0])} to {short(curve['x'][-1])}",
            f"{short(curve['y'][0])} to {short(curve['y'][-1])} {curve['unit']}",
            f"{curve['exponent']:.2f}",
            curve.get("why", ""),
        )
        for curve in found
    ]
    yield "y grows as x to the power of the exponent: 1 is linear, 0 constant. It is fitted to all points."
    yield _table(("y", "x", "x from … to", "y from … to", "exponent", ""), cells)
    for picture in dict.fromkeys(curve["picture"] for curve in found if curve.get("picture")):
        yield f"![{', '.join(curve['of'] for curve in found if curve.get('picture') == picture)}](images/{picture})"


def _unable(done: Iterable[Entry]) -> list[str]:
    return [sentence for entry in done for sentence in entry["result"].get("cannot", ())]


def _not_measured(entry: Entry) -> str:
    what = "failed" if entry["status"] == "failed" else "left out"
    return (
        f"`{entry.get('command', 'python -m benchmarks.' + entry['name'])}` {what}: {markdown.plain(entry['reason'])}"
    )


def _list(heading: str, items: Sequence[str], before: str | None = None) -> list[str]:
    """A heading with a list under it; nothing without items."""
    if not items:
        return []
    return [heading, *([before] if before else []), "\n".join(f"- {item}" for item in items)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _times(ratio: float) -> str:
    """3.1x; from ten on without decimals."""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.1f}x" if ratio >= 2 else f"{ratio:.2f}x"


def _spread(rounds: Sequence[float]) -> str:
    """The smallest and the largest of the rounds."""
    if len(rounds) < 2:
        return "one round"
    return f"{_times(min(rounds))} to {_times(max(rounds))} in {len(rounds)} rounds"
