"""Runs on a local Ray cluster of two workers: those of torchrun to the last bit, whatever happens to a worker."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed as dist

import spanlab
from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.errors import InputError, MissingExtraError, RunError
from spanlab.pretraining.recipe import load_recipe
from spanlab.text.train import TokenizerConfig, train_tokenizer
from spanlab.training.records import read_metrics
from spanlab.workflows.pretrain import PretrainingJob, run_job
from spanlab.workflows.ray_training import run_on_ray
from spanlab.workflows.run import RunResult

TEXT = Path(__file__).parents[1] / "pretraining" / "golden_corpus.txt"
STEPS = 40
KILL_AFTER = 25
SETTINGS = [
    "size=tiny",
    "data.length=64",
    "data.held_out=0.1",
    "encoder.dropout=0",
    "encoder.attention_dropout=0",
    f"training.steps={STEPS}",
    "training.batch_size=8",
    "training.precision=fp32",
    "training.save_every=10",
]
COMPARED = ("split", "step", "loss", "loss.mlm", "loss.sbo", "grad_norm", "lr")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = train_tokenizer([TEXT.read_text()], TokenizerConfig(kind="wordpiece", vocab_size=300))
    folder = tmp_path_factory.mktemp("ray") / "corpus"
    plan = plan_preparation([str(TEXT)], PrepareConfig(documents="blank-line"))
    run_preparation(plan, tokenizer=tokenizer, out=folder, workers=1)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One cluster for all tests that do not start their own."""
    ray = pytest.importorskip("ray", reason="the ray extra is not installed")
    pytest.importorskip("ray.train", reason="Ray is there without its training part")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def undisturbed(corpus: Path) -> Path:
    """The run that torchrun makes with two processes."""
    out = corpus.parent / "torchrun"
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "spanlab"]
    arguments = ["pretrain", "spanbert", "--data", str(corpus), "--out", str(out), *SETTINGS]
    subprocess.run(
        [sys.executable, *launcher, *arguments], check=True, env=environment(), capture_output=True, timeout=300
    )
    return out


def environment() -> dict[str, str]:
    """This process's, with the package found from any directory."""
    return os.environ | {"PYTHONPATH": str(Path(spanlab.__file__).parents[1])}


def job_of(corpus: Path, out: Path, *more: str) -> PretrainingJob:
    return PretrainingJob(recipe=load_recipe("spanbert", [*SETTINGS, *more]), data=(str(corpus),), out=str(out))


def numbers(run: Path) -> list[tuple[object, ...]]:
    return [tuple(entry.get(name) for name in COMPARED) for entry in read_metrics(run / "metrics.jsonl")]


def weights(run: Path) -> tuple[bytes, bytes]:
    """Of the best model, and of the last step."""
    last = run / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors"
    return (run / "model" / "model.safetensors").read_bytes(), last.read_bytes()


def notes_of(run: Path) -> list[str]:
    found: list[str] = json.loads((run / "environment.json").read_text())["notes"]
    return found


def assert_same_run(run: Path, other: Path) -> None:
    assert len(numbers(run)) > STEPS
    assert numbers(run) == numbers(other)
    assert weights(run) == weights(other)


def die_after(step: int, metrics: Path) -> None:
    while not metrics.exists() or max((entry["step"] for entry in read_metrics(metrics)), default=0) < step:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_lose(rank: int, job: PretrainingJob) -> RunResult:
    """A run in which a worker is killed once, in the middle."""
    killed = Path(f"{job.out}.killed")
    if dist.get_rank() == rank and not killed.exists():
        killed.touch()
        metrics = Path(job.out) / "metrics.jsonl"
        threading.Thread(target=die_after, args=(KILL_AFTER, metrics), daemon=True).start()
    return run_job(job)


def lose_the_first(job: PretrainingJob) -> RunResult:
    return run_and_lose(0, job)


def lose_the_second(job: PretrainingJob) -> RunResult:
    return run_and_lose(1, job)


def lose_always(job: PretrainingJob) -> RunResult:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(job)


def fail_on_the_second(job: PretrainingJob) -> RunResult:
    if dist.get_rank() == 1:
        raise MissingExtraError("hf", "a thing")
    dist.barrier()
    raise AssertionError(job)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_losses_and_weights_are_those_of_torchrun(corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    result = run_on_ray(job_of(corpus, tmp_path / "runs" / "run"), workers=2)
    assert (result.outcome, result.steps, result.folder) == ("finished", STEPS, tmp_path / "runs" / "run")
    assert result.scores["loss"] == read_metrics(undisturbed / "metrics.jsonl")[-1]["loss"]
    assert_same_run(result.folder, undisturbed)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("function", [lose_the_first, lose_the_second])
def test_a_killed_worker_costs_a_restart(function, corpus: Path, undisturbed: Path, tmp_path: Path) -> None:  # noqa: ANN001
    job = job_of(corpus, tmp_path / "run")
    result = run_on_ray(job, workers=2, function=function)
    assert (tmp_path / "run.killed").exists()
    assert result.outcome == "finished"
    assert notes_of(result.folder)[-1] in {"resumed after step 20", "resumed after step 30"}
    assert_same_run(result.folder, undisturbed)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_restart_does_not_overwrite_again(corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    job = job_of(corpus, tmp_path / "run")
    run_job(replace(job, recipe=load_recipe("spanbert", [*SETTINGS, "training.steps=3", "seed=7"])))
    job = replace(job, overwrite=True)
    result = run_on_ray(job, workers=2, function=lose_the_second)
    assert notes_of(result.folder)[-1] in {"resumed after step 20", "resumed after step 30"}
    assert_same_run(result.folder, undisturbed)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_error_in_a_worker_is_the_user_s_error(corpus: Path, tmp_path: Path) -> None:
    job = job_of(corpus, tmp_path / "run")
    with pytest.raises(MissingExtraError, match=r"^a thing needs the 'hf' extra; pip install 'spanlab\[hf\]'$"):
        run_on_ray(job, workers=2, function=fail_on_the_second)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_workers_that_are_always_lost_end_the_run(corpus: Path, tmp_path: Path) -> None:
    job = job_of(corpus, tmp_path / "run")
    with pytest.raises(RunError, match=r"^the workers failed, after 1 restarts: .*; --resume continues from"):
        run_on_ray(job, workers=2, restarts=1, function=lose_always)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_saves_the_state_and_stops_the_workers(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    arguments = ["pretrain", "spanbert", "--data", str(corpus), "--out", "run", "--engine", "ray", *SETTINGS]
    process = subprocess.Popen(
        [sys.executable, "-m", "spanlab", *arguments, "training.steps=100000", "training.save_every=100000"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < deadline and not (metrics.exists() and read_metrics(metrics)):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to everything that was started there
    _, told = process.communicate(timeout=240)
    assert process.returncode == 130, told
    last = read_metrics(metrics)[-1]["step"]
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == [f"step-{last:08d}"]
    assert json.loads((tmp_path / "run" / "status.json").read_text())["state"] == "interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_is_refused_is_refused_before_a_cluster_is_started(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").touch()
    with pytest.raises(InputError, match=r"run: the folder contains a run; use --resume or"):
        run_on_ray(job_of(corpus, tmp_path / "run"), workers=2)
    with pytest.raises(InputError, match="nowhere"):
        run_on_ray(job_of(tmp_path / "nowhere", tmp_path / "other"), workers=2)


def test_a_missing_ray_is_told(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs the 'ray' extra; pip install 'spanlab\[ray\]'"):
        run_on_ray(job_of(corpus, tmp_path / "run"), workers=2)
    assert list(tmp_path.iterdir()) == []
