"""The page and the README's table from made-up RESULT lines, and a driver that goes on when a benchmark fails."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import run_all
from benchmarks.measure import Ratio, print_result
from benchmarks.page import render_page, render_ratios, replace_written
from benchmarks.run_all import BENCHMARKS, BY_HAND, Benchmark, read_results, write_pages

MACHINE: dict[str, Any] = {
    "date": "2030-01-02 03:04 UTC",
    "cpu": "Imaginary 9000",
    "cores": 2,
    "instructions": ["AVX2", "AVX-512"],
    "bf16_instructions": False,
    "memory_gb": 16,
    "system": "Linux 7",
    "python": "3.11.7",
    "versions": {"torch": "9.9", "fastcoref": "not installed"},
    "threads": 2,
    "load": [0.1, 0.2, 0.3],
    "quick": True,
}


def entry_of(capsys: pytest.CaptureFixture[str], *ratios: Ratio, **named: Any) -> dict[str, Any]:
    """A line of results, its RESULT printed and read as a benchmark's is."""
    print_result({"tokens_per_second": 12345, "torch": "9.9"}, ratios, named.pop("cannot", ()))
    line = capsys.readouterr().out
    assert line.startswith("RESULT ")
    assert line.count("\n") == 1
    result = json.loads(line.removeprefix("RESULT ")) | named
    ran = {"command": "python -m benchmarks.encoder", "seconds": 75.0, "load": [0.5, 2.1], "others": 0.03}
    return {"name": "encoder", "status": "done", "result": result, **ran}


def step(variant: str, ours: list[float], theirs: list[float], **named: Any) -> Ratio:
    return Ratio.of(
        ours, theirs, **{"what": "a step", "peer": "the peer", "variant": variant, "headline": True, **named}
    )


def test_a_ratio_compares_the_best_rounds_and_keeps_each() -> None:
    ratio = step("fp32", [1.0, 2.0], [3.0, 8.0])
    assert (ratio.ratio, ratio.rounds) == (3.0, (3.0, 4.0))
    rates = Ratio.of_rates([10.0, 5.0], [2.0, 4.0], what="a step", peer="the peer")
    assert (rates.ratio, rates.rounds) == (2.5, (5.0, 1.25))


def test_the_page_has_every_ratio_with_its_spread_and_where_it_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    entry = entry_of(
        capsys,
        step("fp32", [1.0, 2.0], [3.0, 8.0]),
        step("fp32", [1.0], [4.0], quantity="memory"),
        cannot=["No | can."],
    )
    failed = {
        "name": "serve",
        "command": "python -m benchmarks.serve",
        "status": "failed",
        "reason": "exit code 1: <b>",
    }
    missing = {"name": "growth", "status": "left out", "reason": "no time was left"}
    page = render_page([entry, failed, missing], MACHINE, titles={"encoder": "The encoder"}, by_hand={"a": "hours"})
    assert "Measured by `make bench QUICK=1`, begun 2030-01-02 03:04 UTC" in page
    assert "| processor | Imaginary 9000, 2 cores, 16 GB of memory |" in page
    assert "torch 9.9, fastcoref not installed" in page
    assert "`python -m benchmarks.encoder`: 1 min 15 s, load 0.5 to 2.1, other programs 3% of the processor." in page
    assert "| a step, fp32 | the peer | 3.0x | 3.0x to 4.0x in 2 rounds |" in page
    assert "| a step, fp32 | the peer | 4.0x less memory | one round |" in page
    assert "Other figures: tokens per second 12345." in page
    assert "## What peers cannot do\n\n- No | can." in page
    assert "- `python -m benchmarks.serve` failed: exit code 1: &lt;b&gt;" in page
    assert "- `python -m benchmarks.growth` left out: no time was left" in page
    assert "- `a`: hours" in page


def test_growth_is_a_table_of_exponents_with_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    curve = {"of": "seconds", "against": "characters", "x": [1e3, 1e5], "y": [2.0, 250.0], "unit": "s"}
    curves = [curve | {"exponent": 1.05, "picture": "growth_text.svg", "why": "linear"}]
    page = render_page([entry_of(capsys, curves=curves)], MACHINE, titles={}, by_hand={})
    assert "| seconds | characters | 1,000 to 100k | 2 to 250 s | 1.05 | linear |" in page
    assert "![seconds](images/growth_text.svg)" in page


def test_the_readme_has_the_headlines_with_variants_in_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    entry = entry_of(
        capsys,
        step("fp32", [1.0], [3.0]),
        step("bf16", [1.0], [12.6]),
        step("fp32", [2.0], [7.0], quantity="memory"),
        step("", [1.0], [5.0], headline=False),
    )
    other = "b <!-- measured: pace -->c<!-- end of measured -->"
    text = f"# A\n<!-- measured: ratios -->\nold\n<!-- end of measured -->\n{other}"
    once = replace_written(text, "ratios", render_ratios([entry], MACHINE))
    assert "on 2 cores of Imaginary 9000 with AVX2 and AVX-512, without bf16 instructions." in once
    assert re.findall(r"^\| (?!what).*", once, re.MULTILINE) == [
        "| a step | the peer | fp32 3.0x, bf16 13x |",
        "| a step, peak memory | the peer | fp32 3.5x |",
    ]
    assert once.endswith(other)
    assert replace_written(once, "ratios", render_ratios([entry], MACHINE)) == once
    with pytest.raises(SystemExit, match="0 times"):
        replace_written("no marks", "ratios", "")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Benchmarks of a package of their own: one that ends well, one that fails, one that hangs."""
    package = tmp_path / "benchmarks"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "fine.py").write_text("import sys\nprint('RESULT {\"a\": 1}') if sys.argv[1:] == ['--few'] else None\n")
    (package / "broken.py").write_text("raise ValueError('no such thing')\n")
    (package / "hanging.py").write_text("import time\ntime.sleep(600)\n")
    (package / "silent.py").write_text("print('nothing')\n")
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    return tmp_path


def test_the_driver_goes_on_when_a_benchmark_fails_or_hangs(modules: Path) -> None:
    names = {"fine": "--few", "broken": "", "hanging": "", "silent": "", "long": None}
    chosen = [Benchmark(name=name, title=name, quick=quick, quick_minutes=0.15) for name, quick in names.items()]
    entries = list(run_all.run_all(chosen, modules, quick=True, minutes=5))
    told = {entry["name"]: entry.get("reason", entry.get("result")) for entry in entries}
    assert told == {
        "fine": {"a": 1},
        "broken": "exit code 1: ValueError: no such thing",
        "hanging": "stopped after 0 minutes",
        "silent": "no RESULT line",
        "long": "it takes too long for a quick run",
    }
    assert entries[2]["seconds"] >= 9.0
    assert all(0.0 <= entry["seconds"] < 9.0 for entry in (*entries[:2], entries[3]))
    (late,) = run_all.run_all(chosen[:1], modules, quick=True, minutes=0)
    assert late["reason"] == "no time was left"


def test_lines_of_an_earlier_run_give_the_same_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = entry_of(capsys, step("fp32", [1.0, 2.0], [3.0, 8.0]))
    lines = tmp_path / "results.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in ({"machine": MACHINE}, entry)))
    write_pages([entry], MACHINE, tmp_path / "one.md", [])
    write_pages(*read_results(lines), tmp_path / "two.md", [])
    assert (tmp_path / "one.md").read_text() == (tmp_path / "two.md").read_text()


def test_every_benchmark_is_run_or_listed_with_its_command() -> None:
    folder = Path(run_all.__file__).parent
    measuring = {
        path.stem
        for path in folder.glob("*.py")
        if re.search(r"^    print_result\(|^    print\(\"RESULT", path.read_text(encoding="utf-8"), re.MULTILINE)
        or "print_result(" in path.read_text(encoding="utf-8").partition("def main()")[2]
    }
    named = {benchmark.name for benchmark in BENCHMARKS} | set(BY_HAND)
    assert measuring - {"measure"} == named
    assert sys.modules["benchmarks.run_all"] is run_all
