import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spanlab.cli import progress
from spanlab.cli.progress import TrainingProgress, describe
from spanlab.training.records import Record


def train(step: int, notes: tuple[str, ...] = ()) -> Record:
    metrics = {
        "loss": 6.5,
        "loss.mlm": 3.25,
        "loss.sbo": 3.25,
        "lr": 1e-4,
        "tokens_per_second": 12345.6,
        "memory_gb": 1,
    }
    return Record(step=step, epoch=0.5, split="train", metrics=metrics, notes=notes)


def dev(step: int, notes: tuple[str, ...] = ()) -> Record:
    metrics = {"loss": 6.0, "loss.mlm": 2.0, "accuracy.mlm": 0.5, "perplexity.mlm": 20085.5}
    return Record(step=step, epoch=0.5, split="dev", metrics=metrics, notes=notes)


def test_metrics_are_told_with_their_parts() -> None:
    assert describe({"loss": 6.5, "accuracy.mlm": 0.5, "loss.mlm": 3.0, "loss.sbo": 3.5}) == (
        "loss 6.500 (mlm 3.000, sbo 3.500)  accuracy (mlm 0.500)"
    )
    assert describe({"exact_match": 80.0, "f1": 1234.5}) == "exact match 80.000  f1 1,234"


def test_without_a_terminal_lines_come_now_and_then(capfd: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(total=1000, first=100) as shown:
        shown.say("resumed after step 100")
        for step in range(101, 1001):
            shown.log(train(step))
    captured = capfd.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "resumed after step 100"
    steps = [int(re.match(r"step ([\d,]+)/1,000", line)[1].replace(",", "")) for line in lines[1:]]  # type: ignore[index]
    assert steps == [101, *range(151, 1000, 50), 1000]
    told, remaining = lines[1].rsplit("  ", 1)
    assert told == "step 101/1,000 (10%)  loss 6.500 (mlm 3.250, sbo 3.250)  lr 1.00e-04  12,346 tokens/s"
    assert re.fullmatch(r"\d+:\d\d:\d\d left", remaining)


def test_without_a_terminal_a_slow_run_is_told_of_by_the_clock(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("spanlab.cli.progress.time.monotonic", lambda: now)
    with TrainingProgress(total=10_000) as shown:
        for step in range(1, 41):
            now += 10.0
            shown.log(train(step))
    lines = capfd.readouterr().err.splitlines()
    assert [line.split("/")[0] for line in lines] == [f"step {step}" for step in range(1, 41, 3)]
    assert lines[-1].endswith("27:40:00 left")  # 9,960 steps of 10 seconds


def test_the_time_left_follows_the_pace_of_the_last_minutes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps get slower where samples get longer."""
    now = 1000.0
    monkeypatch.setattr("spanlab.cli.progress.time.monotonic", lambda: now)
    with TrainingProgress(total=1000) as shown:
        for step in range(1, 951):
            now += 1.0 if step <= 900 else 6.0
            shown.log(train(step))
    assert capfd.readouterr().err.splitlines()[-1].endswith("0:05:24 left")  # 54 steps of 6 seconds


def test_every_evaluation_and_note_is_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress(total=10_000) as shown:
        shown.log(train(1))
        shown.log(train(2, ("a loss of 40.0, 6 times the recent mean",)))
        shown.log(dev(2, ("the best so far",)))
        shown.log(dev(3))
    assert capfd.readouterr().err.splitlines()[1:] == [
        "step 2: a loss of 40.0, 6 times the recent mean",
        "step 2, held out: loss 6.000 (mlm 2.000)  accuracy (mlm 0.500)  perplexity (mlm 20,086)  (the best so far)",
        "step 3, held out: loss 6.000 (mlm 2.000)  accuracy (mlm 0.500)  perplexity (mlm 20,086)",
    ]


def test_a_terminal_has_a_bar_on_stderr_and_stdout_is_left_alone() -> None:
    code = (
        "from tests.cli.test_progress import TrainingProgress, dev, train\n"
        "with TrainingProgress(total=50) as shown:\n"
        "    for step in range(1, 51): shown.log(train(step))\n"
        "    shown.log(dev(50, ('the best [so far]',)))\n"
        "    print('a result')\n"
    )
    repository = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "PYTHONPATH": os.pathsep.join(sys.path)}
    screen, terminal = pty.openpty()
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=terminal,
        cwd=repository,
        env=environment,
        check=True,
    )
    os.close(terminal)
    shown = read_all(screen)
    assert outcome.stdout == b"a result\n"
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)
    assert "step 50, held out: loss 6.000" in plain
    assert "(the best [so far])" in plain
    assert re.search(r"50/50 ━+ 0:00:00 loss 6\.500 \(mlm 3\.250, sbo 3\.250\)  lr 1\.00e-04  12,346 tokens/s", plain)


def read_all(screen: int) -> str:
    content = b""
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        content += piece
    os.close(screen)
    return content.decode()


def test_the_module_imports_neither_torch_nor_rich_s_progress() -> None:
    code = (
        "import sys, spanlab.cli.progress; print([name for name in ('torch', 'rich.progress') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert outcome.stdout.strip() == "[]"


def test_inputs_are_told_of_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal short work prints nothing, and long work a line with its rate and the time left."""
    clock = iter([0.0, 10.0, 40.0, 50.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress.InputProgress("predict", 100) as shown:
        for count in (9.5, 10.5, 5.0):
            shown.advance(count)
    printed = capsys.readouterr()
    assert printed.err == "predict: 20/100 (20%)  0.5 inputs/s  0:02:40 left\n"
    assert printed.out == ""


def test_a_bar_counts_inputs_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress.InputProgress("predict", 100, first=20) as shown:
        for _ in range(40):
            shown.advance(1.5)
        shown.hide()
        shown.advance(1.5)
    printed = capsys.readouterr()
    assert "/100" in printed.err
    assert "inputs/s" in printed.err
    assert printed.out == ""


def test_stages_have_counts_of_their_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 1000.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with progress.InputProgress("tokenizer train", None, unit="MB") as shown:
        shown.begin("reading", 400.0)
        for _ in range(4):
            now += 20.0
            shown.advance(100.0)
        now += 20.0
        shown.begin("training the vocabulary")
    assert capsys.readouterr().err.splitlines() == [
        "tokenizer train: reading  200/400 (50%)  5.0 MB/s  0:00:40 left",
        "tokenizer train: reading  400/400 (100%)  5.0 MB/s  0:00:00 left",
    ]


def test_a_stage_without_a_count_is_told_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    with progress.InputProgress("convert", None) as shown:
        shown.begin("reading")
        now += 40.0
        shown.begin("writing")
    assert capsys.readouterr().err == "convert: writing\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet_shows_nothing(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    if terminal:
        for name, value in (("FORCE_COLOR", "1"), ("TTY_COMPATIBLE", "1"), ("TERM", "xterm")):
            monkeypatch.setenv(name, value)
    with progress.InputProgress("predict", 10, quiet=True) as shown:
        for _ in range(10):
            now += 40.0
            shown.advance(1)
    assert capsys.readouterr().err == ""


ON_A_TERMINAL = [
    ("data", "check", "ner", "in.jsonl"),
    ("tokenizer", "train", "text.txt", "--type", "wordpiece", "--vocab-size", "60", "--lowercase", "--out", "t"),
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ON_A_TERMINAL, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("quiet", [False, True])
def test_commands_draw_bars_on_a_terminal_alone(arguments: tuple[str, ...], quiet: bool, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "Anna", "spans": []}\n' * 200, encoding="utf-8")
    (tmp_path / "text.txt").write_text("A sentence about the sea.\n" * 50, encoding="utf-8")
    given = [*arguments, *(["--quiet"] if quiet else [])]
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "PYTHONPATH": os.pathsep.join(sys.path)}
    outcome = subprocess.run(
        [sys.executable, "-m", "spanlab", *given],
        stdout=subprocess.PIPE,
        stderr=terminal,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    os.close(terminal)
    shown = read_all(screen)
    assert outcome.returncode == 0, shown
    assert b"\x1b" not in outcome.stdout
    assert ("━" in shown) is not quiet
