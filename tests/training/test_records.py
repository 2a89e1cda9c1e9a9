import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.training.records import MetricsFile, Record, read_metrics


def record(step: int, split: str = "train", **metrics: float) -> Record:
    return Record(step=step, epoch=step / 10, split=split, metrics=metrics)  # type: ignore[arg-type]


def test_every_record_is_a_line_as_soon_as_it_is_logged(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    metrics = MetricsFile(path)
    first = Record(step=1, epoch=0.1, split="train", metrics={"loss": 2.5}, notes=("loss spike: 9 → 30",))
    metrics.log(first)
    assert read_metrics(path) == [first.to_dict()]
    metrics.log(record(1, "dev", loss=2.4))
    assert [entry["split"] for entry in read_metrics(path)] == ["train", "dev"]
    assert path.read_text(encoding="utf-8").endswith("\n")


def test_what_json_has_no_word_for_is_null(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.log(record(1, loss=float("nan"), perplexity=float("inf")))
    line = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8")
    entry = json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert (entry["loss"], entry["perplexity"]) == (None, None)


def test_a_resumed_run_reads_as_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    killed = MetricsFile(path)
    for step in range(1, 8):
        killed.log(record(step, loss=float(step)))
    killed.log(record(5, "dev", loss=0.5))
    killed.close()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 8, "epo')
    resumed = MetricsFile(path)
    resumed.rewind(5)
    for step in range(6, 9):
        resumed.log(record(step, loss=-float(step)))
    steps = [(entry["step"], entry["split"]) for entry in read_metrics(path)]
    assert steps == [*((step, "train") for step in range(1, 6)), (5, "dev"), (6, "train"), (7, "train"), (8, "train")]
    assert read_metrics(path)[-1]["loss"] == -8.0
    assert list(tmp_path.iterdir()) == [path]


@given(steps=st.lists(st.integers(1, 20)), back_to=st.integers(0, 20), cut=st.integers(0, 60))
def test_rewinding_keeps_whole_lines_up_to_the_step(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], back_to: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    metrics = MetricsFile(path)
    for step in steps:
        metrics.log(record(step, loss=0.25))
    metrics.close()
    path.touch()
    content = path.read_bytes()[: max(0, path.stat().st_size - cut)]
    path.write_bytes(content)
    whole = [json.loads(line)["step"] for line in content.split(b"\n")[:-1]]
    assert [entry["step"] for entry in read_metrics(path)] == whole
    MetricsFile(path).rewind(back_to)
    assert [entry["step"] for entry in read_metrics(path)] == [step for step in whole if step <= back_to]
    assert path.read_bytes() == b"" or path.read_bytes().endswith(b"\n")


def test_a_new_record_does_not_go_on_with_a_half_written_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "epoch": 0.1, "split": "train"}\n{"step": 2, "e', encoding="utf-8")
    MetricsFile(path).log(record(2, loss=1.0))
    assert [entry["step"] for entry in read_metrics(path)] == [1, 2]


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    code = (
        "import itertools, sys, pathlib\n"
        "from spanlab.training.records import MetricsFile\n"
        "from spanlab.training.records import Record\n"
        "metrics = MetricsFile(pathlib.Path(sys.argv[1]))\n"
        "for step in itertools.count(1):\n"
        "    metrics.log(Record(step=step, epoch=0.0, split='train', metrics={'loss': 1.0}))\n"
        "    if step == 500: print(flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    steps = [entry["step"] for entry in read_metrics(path)]
    assert len(steps) >= 500
    assert steps == list(range(1, len(steps) + 1))


def test_a_file_that_is_not_there_or_of_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"metrics\.jsonl: No such file"):
        read_metrics(tmp_path / "metrics.jsonl")
    other = tmp_path / "other.jsonl"
    other.write_text('{"step": 1, "split": "train"}\n{"text": "a"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.jsonl:2: not a record"):
        read_metrics(other)
