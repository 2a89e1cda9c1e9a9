"""Output files of predictions: whole or not there, resumed to the byte, and never mixed with another model's."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanlab.errors import InputError
from spanlab.inference import output_file, predictor, torch_predictor
from spanlab.inference.output_file import OutputFile
from tests.cli.run import run_here
from tests.compat.test_folders_written_before import DATA
from tests.compat.test_folders_written_before import read as read_cases

CLASSIFIER, ENTITIES, ANSWERS = (str(DATA / "tasks" / name) for name in ("classification", "ner-tag", "qa-pointers"))
# Portions of 4 inputs, and time enough between them to be killed in.
SLOW_PORTIONS = """
import time
from spanlab.inference import predictor
from spanlab.inference.output_file import OutputFile
predictor.PORTION = 4
keep = OutputFile._keep
def slowly(self, portion):
    keep(self, portion)
    time.sleep({seconds})
OutputFile._keep = slowly
from spanlab.cli.main import main
main()
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    names = ("Anna", "Peter", "Mary", "Ivan")
    rows = [{"text": f"{names[n % 4]} sold the flour {'and the nets ' * (n % 7)}in Delft {n}"} for n in range(30)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def portions_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "PORTION", 4)


def predict(texts: Path, out: Path, *options: str, model: str = CLASSIFIER) -> subprocess.CompletedProcess[str]:
    return run_here("predict", model, "--input", str(texts), "--output", str(out), *options)


def stop_after(monkeypatch: pytest.MonkeyPatch, portions: int, error: BaseException) -> None:
    """Let so many portions be computed, then fail."""
    compute, left = torch_predictor.compute_outputs, iter(range(portions))

    def failing(*arguments: Any, **options: Any) -> Any:
        if next(left, None) is None:
            monkeypatch.setattr(torch_predictor, "compute_outputs", compute)
            raise error
        return compute(*arguments, **options)

    monkeypatch.setattr(torch_predictor, "compute_outputs", failing)


def leave_unfinished(texts: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *, model: str = CLASSIFIER) -> None:
    stop_after(monkeypatch, 3, InputError("stopped"))
    done = predict(texts, out, model=model)
    assert done.returncode == 2
    assert "12 results are kept; continue with the same command and --resume" in done.stderr
    assert not out.exists()


def children(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir() if path.name.startswith(out.name))


@pytest.mark.usefixtures("portions_of_four")
def test_a_stopped_output_is_resumed_to_the_byte(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert predict(texts, whole).returncode == 0
    leave_unfinished(texts, out, monkeypatch)
    assert children(out) == ["out.jsonl.partial", "out.jsonl.partial.json"]
    with (tmp_path / "out.jsonl.partial").open("ab") as file:  # a portion that was cut short
        file.write(b'{"id": "12", "windows": 1}\n{"id": "13", "win')
    refused = predict(texts, out)
    assert refused.returncode == 2
    assert "12 results; continue it with --resume, or replace it with --overwrite" in refused.stderr
    done = predict(texts, out, "--resume")
    assert done.returncode == 0, done.stderr
    assert "30 results" in done.stderr
    assert out.read_bytes() == whole.read_bytes()
    assert children(out) == ["out.jsonl"]


@pytest.mark.usefixtures("portions_of_four")
def test_it_stays_resumable_however_often_it_stops(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert predict(texts, whole).returncode == 0
    for stop in range(1, 9):
        stop_after(monkeypatch, 1, KeyboardInterrupt() if stop % 2 else InputError("stopped"))
        done = predict(texts, out, "--resume")
        if done.returncode == 0:
            break
        assert f"{min(4 * stop, 30)} results are kept" in done.stderr
    monkeypatch.undo()
    monkeypatch.setattr(predictor, "PORTION", 4)
    assert out.exists() or predict(texts, out, "--resume").returncode == 0
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.usefixtures("portions_of_four")
def test_only_what_made_it_may_resume_it(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.jsonl"
    leave_unfinished(texts, out, monkeypatch, model=ENTITIES)
    before = (tmp_path / "out.jsonl.partial").read_bytes()
    questions, others, fewer = (tmp_path / f"{name}.jsonl" for name in ("questions", "others", "fewer"))
    question = json.dumps(read_cases(DATA / "tasks" / "qa-pointers.json")[0]["input"])
    questions.write_text(f"{question}\n" * 30)
    lines = texts.read_text().splitlines(keepends=True)
    others.write_text("".join([lines[0], lines[2], *lines[2:]]))
    fewer.write_text("".join(lines[:11]))
    for given, model, options, words in (
        (questions, ANSWERS, (), "begun with task ner, not qa"),
        (texts, str(DATA / "tasks" / "ner-span"), (), f"begun with another model, {ENTITIES}"),
        (texts, ENTITIES, ("--redact",), "begun with format json, not redacted"),
        (texts, ENTITIES, ("--batch-tokens", "64"), "begun with batch tokens 16384, not 64"),
        (others, ENTITIES, (), "12 results for other inputs than the first 12 of this file"),
        (fewer, ENTITIES, (), "12 results, but the input has only 11 examples"),
        (texts, ENTITIES, ("--format", "conll2003"), "only JSON lines can be resumed"),
        (texts, ENTITIES, ("--overwrite",), "exclude each other"),
    ):
        done = predict(given, out, "--resume", *options, model=model)
        assert done.returncode == 2, words
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert (tmp_path / "out.jsonl.partial").read_bytes() == before
    assert predict(texts, out, "--resume", model=ENTITIES).returncode == 0


def test_a_finished_output_is_not_resumed(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert predict(texts, out, model=ENTITIES).returncode == 0
    before = out.read_bytes()
    done = predict(texts, out, "--resume", model=CLASSIFIER)
    assert done.returncode == 2
    assert "no unfinished output beside it" in done.stderr
    assert out.read_bytes() == before
    assert "--output" in run_here("predict", CLASSIFIER, "--input", str(texts), "--resume").stderr


def test_resume_starts_what_is_not_there(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert predict(texts, out, "--resume").returncode == 0
    assert len(out.read_text().splitlines()) == 30


@pytest.mark.usefixtures("portions_of_four")
def test_an_unfinished_output_stays_until_there_is_a_new_one(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    leave_unfinished(texts, out, monkeypatch)
    assert predict(tmp_path / "missing.jsonl", out, "--overwrite").returncode == 2
    assert predict(texts, out, "--overwrite", model="missing/model").returncode == 2
    assert children(out) == ["out.jsonl.partial", "out.jsonl.partial.json"]
    assert predict(texts, out, "--overwrite").returncode == 0
    assert children(out) == ["out.jsonl"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"results": 12}',
        '{"made_by": {}, "model": "", "results": -1, "bytes": 0, "inputs": ""}',
        '{"made_by": 1, "model": "", "results": 1, "bytes": 0, "inputs": ""}',
    ],
)
def test_a_damaged_state_is_refused_with_the_fix(content: str, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    (tmp_path / "out.jsonl.partial.json").write_text(content)
    (tmp_path / "out.jsonl.partial").write_text("x\n")
    done = predict(texts, out, "--resume")
    assert done.returncode == 2
    assert "start again with --overwrite" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert predict(texts, out, "--overwrite").returncode == 0
    assert children(out) == ["out.jsonl"]


@pytest.mark.usefixtures("portions_of_four")
def test_results_that_were_lost_are_noticed(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.jsonl"
    leave_unfinished(texts, out, monkeypatch)
    (tmp_path / "out.jsonl.partial").write_text("")
    done = predict(texts, out, "--resume")
    assert done.returncode == 2
    assert "has lost some of its results" in done.stderr


def test_devices_and_pipes_are_written_directly(texts: Path, tmp_path: Path) -> None:
    assert predict(texts, Path("/dev/null")).returncode == 0
    assert Path("/dev/null").is_char_device()
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "target.jsonl")
    assert predict(texts, link).returncode == 0
    assert link.is_symlink()
    assert len((tmp_path / "target.jsonl").read_text().splitlines()) == 30
    shown = run_here("predict", CLASSIFIER, "--input", str(texts), "--output", "-", "--json")
    assert shown.stdout == (tmp_path / "target.jsonl").read_text()


def test_an_output_belongs_to_one_process(texts: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="this system has no such locks")
    out = tmp_path / "out.jsonl"
    first = OutputFile(out, resume=False, overwrite=False)
    with first:
        for options in ((), ("--resume",), ("--overwrite",)):
            done = predict(texts, out, *options)
            assert done.returncode == 2
            assert "another process is writing this output" in done.stderr
    assert predict(texts, out, "--overwrite").returncode == 0


@pytest.mark.usefixtures("portions_of_four")
def test_a_full_disk_keeps_what_is_whole(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert predict(texts, whole).returncode == 0
    keep, left = output_file.write_json, iter(range(3))

    def no_space(path: Path, mapping: Any) -> None:
        if next(left, None) is None:
            raise OSError(28, "No space left on device", str(path))
        keep(path, mapping)

    monkeypatch.setattr(output_file, "write_json", no_space)
    done = predict(texts, out)
    assert done.returncode == 2
    assert f"{out}: the disk is full; free some space and continue with --resume" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not out.exists()
    monkeypatch.setattr(output_file, "write_json", keep)
    assert predict(texts, out, "--resume").returncode == 0
    assert out.read_bytes() == whole.read_bytes()


@pytest.fixture
def small_files(texts: Path) -> Iterator[None]:
    """Files other than the input may not grow beyond 500 bytes: the nearest a test gets to a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_without_space_nothing_is_left(texts: Path, tmp_path: Path) -> None:
    out, vectors = tmp_path / "out.jsonl", tmp_path / "vectors.npy"
    for done, name in (
        (predict(texts, out), out),
        (predict(texts, out, "--format", "text"), out),
        (run_here("embed", CLASSIFIER, "--input", str(texts), "--output", str(vectors)), vectors),
    ):
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"spanlab: {name}: ")
        assert "free some space and run the command again" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_killed_and_resumed(engine: str, texts: Path, tmp_path: Path) -> None:
    """Real processes: one is killed in the midst of its work, one is refused beside it, one goes on."""
    if engine == "ray":
        pytest.importorskip("ray", reason="the ray extra is not installed")
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"

    def start(path: Path, *options: str, seconds: float = 0.0) -> subprocess.Popen[str]:
        code = SLOW_PORTIONS.format(seconds=seconds)
        given = ("predict", CLASSIFIER, "--input", str(texts), "--output", str(path), "--engine", engine)
        return subprocess.Popen(
            [sys.executable, "-c", code, *given, *(("--workers", "1") if engine == "ray" else ()), *options],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    undisturbed = start(whole)
    _, errors = undisturbed.communicate(timeout=300)
    assert undisturbed.returncode == 0, errors
    killed = start(out, seconds=1.0)
    state = tmp_path / "out.jsonl.partial.json"
    for _ in range(3000):
        if state.exists() and json.loads(state.read_text())["results"] >= 8:
            break
        assert killed.poll() is None, killed.communicate()[1]
        time.sleep(0.05)
    killed.send_signal(signal.SIGSTOP)  # so that the next one finds it alive
    beside = start(out, "--resume")
    _, errors = beside.communicate(timeout=300)
    assert beside.returncode == 2
    assert "another process is writing this output" in errors
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not out.exists()
    resumed = start(out, "--resume")
    _, errors = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, errors
    assert out.read_bytes() == whole.read_bytes()
    assert children(out) == ["out.jsonl"]
