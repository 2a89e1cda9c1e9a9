"""A run that is killed, stopped or starved goes on to be, to the bit, the run that was never disturbed."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workflows.running import assert_same_run, command, finish, records, start

SETTINGS = (
    "training.steps=120",
    "training.save_every=7",
    "training.eval_every=15",
    "training.ema=0.9",
    "data.length=64",
    "encoder.dropout=0.2",
    "encoder.attention_dropout=0.1",
)


def wait_for_steps(process: subprocess.Popen[str], run: Path, count: int) -> None:
    """Until the run has told of so many records, or has ended."""
    while process.poll() is None:
        path = run / "metrics.jsonl"
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.005)


@pytest.mark.slow
def test_sigkill_at_ten_random_moments(small_corpus: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(command("spanbert", small_corpus, whole, *SETTINGS))
    draw = random.Random(11)
    steps, kills = 0, 0
    for _ in range(40):
        resume = ["--resume"] if (killed / "config.yaml").exists() else []
        process = start(command("spanbert", small_corpus, killed, *SETTINGS, *resume))
        if kills == 0:
            time.sleep(draw.uniform(0.5, 2.0))  # before there is anything to go on from
        elif kills < 10:
            wait_for_steps(process, killed, steps + draw.randint(4, 16))
            time.sleep(draw.uniform(0, 0.03))
        if kills < 10:
            process.kill()
        _, errors = process.communicate(timeout=300)
        kills += process.returncode == -signal.SIGKILL
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
        steps = len(records_so_far(killed))
    assert kills == 10
    assert_same_run(whole, killed)
    assert not list(killed.glob(".model-*"))
    assert not list((killed / "checkpoints").glob(".*"))


def records_so_far(run: Path) -> list[str]:
    path = run / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_polite_signal(small_corpus: Path, tmp_path: Path, number: int, code: int) -> None:
    settings = ("training.steps=60", "training.save_every=1000", "training.eval_every=20", "encoder.dropout=0.2")
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    process = start(command("electra", small_corpus, stopped, *settings))
    wait_for_steps(process, stopped, 10)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    done = records(stopped)[-1]["step"]
    assert 10 <= done < 60
    assert [path.name for path in (stopped / "checkpoints").iterdir()] == [f"step-{done:08d}"]
    assert (stopped / "report.html").is_file()
    finish(command("electra", small_corpus, stopped, *settings, "--resume"))
    finish(command("electra", small_corpus, whole, *settings))
    assert_same_run(whole, stopped)


@pytest.mark.slow
def test_ctrl_c_twice(small_corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = (
        "training.steps=100000",
        "training.save_every=5",
        "training.eval_every=100000",
        "training.batch_size=256",
    )
    process = start(command("spanbert", small_corpus, run, *settings))
    wait_for_steps(process, run, 7)
    process.send_signal(signal.SIGINT)
    time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    resumed = finish(command("spanbert", small_corpus, run, *settings, "--resume", "training.time_limit=1e-9"))
    assert "resumed after step" in resumed
    assert "damaged" not in resumed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("unshare") is None, reason="needs a disk of its own")
def test_a_disk_that_fills_up(small_corpus: Path, tmp_path: Path) -> None:
    """On a real file system that is too small, seen by the run alone; what it left is copied out before it goes."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    settings = ("training.steps=40", "training.keep=30", "training.save_every=2", "training.eval_every=40")
    script = f'mount -t tmpfs -o size=1200k tmpfs {disk} || exit 77; "$@"; code=$?; cp -r {disk}/run {kept}; exit $code'
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", sys.executable]
    arguments = [*unshare, *command("spanbert", small_corpus, disk / "run", *settings)]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode == 77 or result.stderr.startswith("unshare"):
        pytest.skip("no file system may be mounted here")
    assert result.returncode == 2, result.stderr
    message = f"spanlab: {disk}/run: the disk is full; make room and go on with --resume; the last checkpoint is whole"
    assert result.stderr.splitlines()[-1] == message
    assert "Traceback" not in result.stderr
    assert 0 < len(list((kept / "checkpoints").glob("step-*"))) < 20
    finish(command("spanbert", small_corpus, kept, *settings, "--resume"))
    finish(command("spanbert", small_corpus, tmp_path / "whole", *settings))
    assert_same_run(tmp_path / "whole", kept)
