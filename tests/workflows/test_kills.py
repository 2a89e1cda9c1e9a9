"""A run that is killed, stopped or starved goes on to be, to the bit, the run that was never disturbed."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pretraining.making import make_tokenizer, prepare, write_text
from tests.workflows.running import assert_same_run, command, finish, newest_state, records, start

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
    kill_again_and_again(command("spanbert", small_corpus, killed, *SETTINGS), killed, 10)
    assert_same_run(whole, killed)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["xlnet", "elmo"])
def test_sigkill_of_a_run_that_carries_something(recipe: str, tmp_path: Path) -> None:
    """XLNet's memory and the states of ELMo's LSTMs are where they were, too."""
    text = write_text(tmp_path / "text.txt")
    corpus = prepare(text, make_tokenizer(text, "unigram" if recipe == "xlnet" else "word", 300), tmp_path / "corpus")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(streams(recipe, corpus, whole))
    kill_again_and_again(streams(recipe, corpus, killed), killed, 3)
    assert_same_run(whole, killed)  # what is carried included
    carried = {name.split(".")[3] for name in newest_state(killed) if ".carried." in name}
    assert carried == {str(stream) for stream in range(8)}


def streams(recipe: str, corpus: Path, out: Path) -> list[str]:
    """A run over eight streams, saved between its evaluations."""
    body = {
        "xlnet": ("data.reuse=12", "data.memory=20", "masking.permutation.predictions=5", "encoder.width=64"),
        "elmo": ("encoder.projection=16", "encoder.cells=32"),
    }
    settings = ("data.length=24", "data.held_out=0.15", "training.batch_size=8", "training.lr=0.003")
    place = ("training.precision=fp32", "training.threads=1", "training.device=cpu")
    often = ("training.steps=60", "training.save_every=4", "training.eval_every=15", "encoder.dropout=0.2")
    out_and_data = ["--data", str(corpus), "--out", str(out), "size=tiny"]
    return ["-m", "spanlab", "pretrain", recipe, *out_and_data, *settings, *place, *often, *body[recipe]]


def kill_again_and_again(arguments: list[str], run: Path, wanted: int) -> None:
    """Start a run, and go on with it after each of `wanted` kills at random moments, until it is at its end."""
    draw = random.Random(11)
    steps, kills = 0, 0
    for _ in range(4 * wanted):
        process = start([*arguments, *(["--resume"] if (run / "config.yaml").exists() else [])])
        if kills == 0:
            time.sleep(draw.uniform(0.5, 2.0))  # before there is anything to go on from
        elif kills < wanted:
            wait_for_steps(process, run, steps + draw.randint(4, 16))
            time.sleep(draw.uniform(0, 0.03))
        if kills < wanted:
            process.kill()
        _, errors = process.communicate(timeout=300)
        kills += process.returncode == -signal.SIGKILL
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
        steps = len(records_so_far(run))
    assert kills == wanted
    assert not list(run.glob(".model-*"))
    assert not list((run / "checkpoints").glob(".*"))


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
    fix = "free some space and continue with --resume; the last checkpoint is intact"
    message = f"spanlab: {disk}/run: the disk is full; {fix}"
    assert result.stderr.splitlines()[-1] == message
    assert "Traceback" not in result.stderr
    assert 0 < len(list((kept / "checkpoints").glob("step-*"))) < 20
    finish(command("spanbert", small_corpus, kept, *settings, "--resume"))
    finish(command("spanbert", small_corpus, tmp_path / "whole", *settings))
    assert_same_run(tmp_path / "whole", kept)
