"""Neither processes nor micro-batches nor shards change what is learnt, and a run moves from one number to another."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.recipes import shipped_recipes
from spanlab.training.records import Record
from spanlab.workflows.pretrain import run_job
from tests.pretraining.making import job
from tests.workflows.running import finish, newest_state, on_two, records

CALM = ("encoder.dropout=0", "encoder.attention_dropout=0")
EXACT = (*CALM, "training.precision=fp64", "training.steps=20", "training.eval_every=20", "training.clip=0.5")
SINGLE = (*CALM, "training.precision=fp32", "training.steps=50", "training.eval_every=50", "training.clip=0.5")


def run(recipe: str, corpus: Path, out: Path, *overrides: str, stop: int | None = None, **options: Any) -> Path:
    """A run in this process, stopped after a step if that is asked."""

    def end(record: Record) -> None:
        if record.step == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    with suppress(SystemExit):
        run_job(job(recipe, corpus, out, *overrides, **options), on_record=end)
    return out


def assert_alike(one: Path, other: Path, *, tolerance: float) -> None:
    """The same losses, norms and scores, and weights that differ by no more than a share of their length."""
    ours, theirs = records(one), records(other)
    assert [(line["step"], line["split"]) for line in ours] == [(line["step"], line["split"]) for line in theirs]
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.keys() == yours.keys()
        for name, value in mine.items():
            if name.startswith(("loss", "grad_norm", "lr", "unigram", "epoch")):
                assert value == pytest.approx(yours[name], rel=tolerance), (name, mine["step"])
    weights, others = newest_state(one), newest_state(other)
    assert weights.keys() == others.keys()
    names = [name for name in weights if name.startswith("weights.")]
    difference = torch.cat([(weights[name] - others[name]).flatten() for name in names])
    assert difference.norm() <= tolerance * torch.cat([others[name].flatten() for name in names]).norm()


STREAMS = {"xlnet", "elmo"}
"""Recipes that read columns, whose shares of a step are tested in `tests/pretraining/test_stream_batches.py`."""


@pytest.mark.parametrize("recipe", [recipe for recipe in shipped_recipes() if recipe not in STREAMS])
def test_four_micro_batches_of_eight_are_one_of_thirty_two(recipe: str, small_corpus: Path, tmp_path: Path) -> None:
    settings = (*EXACT, "training.batch_size=32", "masking.static=0", "training.steps=8")
    one = run(recipe, small_corpus, tmp_path / "one", *settings)
    four = run(recipe, small_corpus, tmp_path / "four", *settings, "training.accumulate=4")
    assert_alike(one, four, tolerance=1e-10)


@pytest.mark.slow
def test_four_micro_batches_in_single_precision(small_corpus: Path, tmp_path: Path) -> None:
    one = run("spanbert", small_corpus, tmp_path / "one", *SINGLE, "training.batch_size=32")
    four = run("spanbert", small_corpus, tmp_path / "four", *SINGLE, "training.batch_size=32", "training.accumulate=4")
    assert_alike(one, four, tolerance=1e-4)


CASES: dict[str, tuple[str, tuple[str, ...], float]] = {
    "spanbert ddp": ("spanbert", EXACT, 1e-8),
    "spanbert fsdp": ("spanbert", (*EXACT, "training.parallel=fsdp"), 1e-8),
    "electra ddp": ("electra", EXACT, 1e-8),
    "electra fsdp": ("electra", (*EXACT, "training.parallel=fsdp", "training.ema=0.9"), 1e-8),
    "accumulated ddp": ("spanbert", (*EXACT, "training.accumulate=2"), 1e-8),
    "accumulated fsdp": ("albert", (*EXACT, "training.parallel=fsdp", "training.accumulate=2"), 1e-8),
    "single ddp": ("spanbert", SINGLE, 1e-4),
    "single fsdp": ("spanbert", (*SINGLE, "training.parallel=fsdp"), 1e-4),
}


def alone(overrides: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in overrides if "accumulate" not in text and "parallel" not in text)


@pytest.mark.slow
def test_two_processes_are_one(small_corpus: Path, tmp_path: Path) -> None:
    """All in one launch: starting processes takes longer than what they do."""
    asked: list[dict[str, Any]] = []

    def ask(recipe: str, out: str, *overrides: str, **options: Any) -> None:
        common = {"recipe": recipe, "corpus": str(small_corpus), "out": str(tmp_path / out)}
        asked.append({"stop": None, "resume": False, "init": None, **common, "overrides": overrides, **options})

    for name, (recipe, overrides, _) in CASES.items():
        ask(recipe, name, *overrides)
    for kind in ("ddp", "fsdp"):
        ask("spanbert", f"two to one {kind}", *EXACT, f"training.parallel={kind}", "training.ema=0.9", stop=8)
        run("spanbert", small_corpus, tmp_path / f"one to two {kind}", *EXACT, "training.ema=0.9", stop=8)
        ask("spanbert", f"one to two {kind}", *EXACT, "training.ema=0.9", f"training.parallel={kind}", resume=True)
    pooled = str(run("bert", small_corpus, tmp_path / "pooled", "training.steps=1", "masking.static=0") / "model")
    ask("spanbert", "continued", *EXACT, init=pooled)
    (tmp_path / "jobs.json").write_text(json.dumps(asked))
    finish(on_two(["-m", "tests.workflows.two_processes", str(tmp_path / "jobs.json")]))

    for name, (recipe, overrides, tolerance) in CASES.items():
        one = tmp_path / f"alone {recipe} {' '.join(alone(overrides))}".replace("training.", "")
        if not one.exists():
            run(recipe, small_corpus, one, *alone(overrides))
        assert_alike(tmp_path / name, one, tolerance=tolerance)
    # The pooler of the model is trained by nothing here, and no process waits for its gradient.
    one = run("spanbert", small_corpus, tmp_path / "continued alone", *EXACT, init=pooled)
    assert_alike(tmp_path / "continued", one, tolerance=1e-8)
    whole = run("spanbert", small_corpus, tmp_path / "whole", *EXACT, "training.ema=0.9")
    for kind in ("ddp", "fsdp"):
        moved = tmp_path / f"two to one {kind}"
        assert records(moved)[-1]["step"] == 9
        run("spanbert", small_corpus, moved, *EXACT, "training.ema=0.9", resume=True)
        assert_alike(moved, whole, tolerance=1e-8)
        assert_alike(tmp_path / f"one to two {kind}", whole, tolerance=1e-8)
