"""The loop, on the smallest work there is: what happens at which step, and how a run ends."""

import json
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from spanlab.atomic_io import sha256_of
from spanlab.errors import ConfigError, InputError, RunError
from spanlab.training.checkpoint import _digest
from spanlab.training.distributed import ProcessContext, current_process
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.schedules import learning_rate_factor
from tests.training.toy import Points, ToyData, ToyModel, equal, exported, toy_training, weights

calm = partial(ToyModel, 0.0)


def told(records: list[Record]) -> list[tuple[int, str]]:
    return [(record.step, record.split) for record in records]


def scores(*values: float) -> Callable[[ProcessContext], dict[str, float]]:
    """An evaluation that gives one score after the other."""
    left = list(values)
    return lambda process: {"loss": left.pop(0)}


def finish(training: Training[Points]) -> dict[str, Tensor]:
    list(training.records())
    assert training.outcome == "finished"
    return weights(training)


def test_steps_evaluations_and_saves_come_when_they_should(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=7, evaluate=scores(3, 2, 1), keep=9)
    records = list(training.records())
    steps = [(step, "train") for step in range(1, 8)]
    assert told(records) == sorted([*steps, (3, "dev"), (6, "dev"), (7, "dev")], key=lambda x: (x[0], x[1] == "dev"))
    assert training.run.checkpoints.steps() == [2, 4, 6, 7]
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["state"], status["step"], status["best"]) == ("finished", 7, {"score": 1, "step": 7})
    for record in records:
        if record.split == "train":
            assert record.metrics["lr"] == pytest.approx(
                0.05 * learning_rate_factor(record.step - 1, 7, training.config), rel=1e-12
            )
            assert record.metrics["loss"] == pytest.approx(record.metrics["loss.error"], rel=1e-6)
            assert record.metrics["grad_norm"] > 0
            assert record.epoch == record.step / 10


def test_a_run_learns(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=150, lr=0.1, save_every=50, model=calm)
    losses = [record.metrics["loss"] for record in training.records()]
    assert losses[-1] < 0.01 < losses[0]


@pytest.mark.parametrize("accumulate", [2, 8])
def test_micro_batches_make_no_difference(tmp_path: Path, accumulate: int) -> None:
    process = ProcessContext(device=torch.device("cpu"), precision="fp64")
    one = toy_training(tmp_path / "one", model=calm, process=process)
    many = toy_training(tmp_path / "many", model=calm, process=process, data=ToyData(accumulate))
    for ours, theirs in zip(one.records(), many.records(), strict=True):
        assert ours.metrics["loss"] == pytest.approx(theirs.metrics["loss"], rel=1e-12)
    for name, tensor in weights(one).items():
        torch.testing.assert_close(tensor, weights(many)[name], rtol=1e-12, atol=1e-12)


def test_the_best_model_is_kept(tmp_path: Path) -> None:
    training = toy_training(tmp_path, evaluate=scores(3.0, 1.0, 2.0, 1.0))
    at_step: dict[int, dict[str, Tensor]] = {}
    notes = {}
    for record in training.records():
        at_step[record.step] = weights(training)
        if record.split == "dev":
            notes[record.step] = record.notes
    assert notes == {3: ("the best so far",), 6: ("the best so far",), 9: (), 12: ()}
    assert equal(exported(training.run), at_step[6])
    assert not equal(exported(training.run), at_step[12])


def test_higher_may_be_better(tmp_path: Path) -> None:
    training = toy_training(tmp_path, evaluate=scores(0.1, 0.5, float("nan"), 0.3), higher_is_better=True)
    list(training.records())
    assert (training.progress.best, training.progress.best_step) == (0.5, 6)


def test_a_score_that_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    training = toy_training(tmp_path, evaluate=scores(float("nan"), 5.0, 6.0, 7.0))
    list(training.records())
    assert (training.progress.best, training.progress.best_step) == (5.0, 6)


def test_without_held_out_data_the_newest_model_is_exported(tmp_path: Path) -> None:
    training = toy_training(tmp_path)
    assert equal(finish(training), exported(training.run))


def test_a_run_ends_when_it_no_longer_gets_better(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=300, patience=2, evaluate=scores(5, 4, 4.5, 3, 3, 3.5, 0))
    records = list(training.records())
    assert (training.outcome, records[-1].step) == ("patience", 18)
    assert training.progress.best_step == 12
    resumed = toy_training(tmp_path, steps=300, patience=2, evaluate=scores())
    resumed.resume()
    assert list(resumed.records()) == []
    assert resumed.outcome == "patience"


def test_the_moving_average_is_what_is_evaluated_and_exported(tmp_path: Path) -> None:
    seen: list[dict[str, Tensor]] = []

    def evaluate(process: ProcessContext) -> dict[str, float]:
        seen.append(weights(training))
        return {"loss": -len(seen)}

    training = toy_training(tmp_path, steps=4, eval_every=4, ema=0.5, evaluate=evaluate)
    average = {name: tensor.double() for name, tensor in weights(training).items()}
    for record in training.records():
        if record.split == "train":
            step = record.step - 1
            decay = min(0.5, (1 + step) / (10 + step))
            average = {name: decay * average[name] + (1 - decay) * now for name, now in weights(training).items()}
    assert equal(seen[0], exported(training.run))
    for name, tensor in average.items():
        torch.testing.assert_close(seen[0][name].double(), tensor, rtol=1e-5, atol=1e-6)
    assert not equal(weights(training), exported(training.run))


def resume(folder: Path, **settings: object) -> Training[Points]:
    training = toy_training(folder, **settings)  # type: ignore[arg-type]
    assert training.resume()[-1].startswith("resumed after step")
    return training


@pytest.mark.parametrize("settings", [{}, {"ema": 0.9}, {"optimiser": "lamb"}, {"bias_correction": False}])
def test_a_run_goes_on_where_it_was_left(tmp_path: Path, settings: dict[str, object]) -> None:
    whole = toy_training(tmp_path / "whole", **settings)  # type: ignore[arg-type]
    losses = [record.metrics["loss"] for record in whole.records()]
    again = []
    for step in (2, 3, 7, 99):
        part = toy_training(tmp_path / "parts", **settings)  # type: ignore[arg-type]
        if again:
            part.resume()
        again = again[: part.progress.step]
        for record in part.records():
            again.append(record.metrics["loss"])
            if record.step == step:
                break  # as a kill does: nothing is saved beyond what was
    assert again == losses
    assert equal(weights(part), weights(whole))
    assert equal(exported(part.run), exported(whole.run))


@pytest.mark.parametrize(
    ("number", "outcome"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_ends_a_run_after_the_next_step(tmp_path: Path, number: int, outcome: str) -> None:
    whole = finish(toy_training(tmp_path / "whole"))
    handler = signal.getsignal(number)
    training = toy_training(tmp_path / "parts", save_every=100)
    for record in training.records():
        if record.step == 5:
            os.kill(os.getpid(), number)
    assert (training.outcome, training.progress.step) == (outcome, 6)
    assert training.run.checkpoints.steps() == [6]
    assert signal.getsignal(number) is handler
    assert equal(finish(resume(tmp_path / "parts")), whole)


def test_ctrl_c_twice_ends_at_once(tmp_path: Path) -> None:
    training = toy_training(tmp_path, save_every=2)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for record in training.records():
            if record.step == 5:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
    newest = training.run.checkpoints.newest()
    assert newest is not None
    assert newest.progress.step == 4
    assert not training.run.checkpoints.damaged


def test_a_launchers_sigterm_after_ctrl_c_is_no_second_ctrl_c(tmp_path: Path) -> None:
    training = toy_training(tmp_path)
    for record in training.records():
        if record.step == 5:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
    assert (training.outcome, training.run.checkpoints.steps()[-1]) == ("interrupted", 6)


def test_a_time_limit_ends_a_session_and_counts_anew_in_the_next(tmp_path: Path) -> None:
    whole = finish(toy_training(tmp_path / "whole"))
    for step in (1, 2):
        training = toy_training(tmp_path / "parts", time_limit=1e-9)
        training.resume()
        list(training.records())
        assert (training.outcome, training.progress.step) == ("time limit", step)
    assert equal(finish(resume(tmp_path / "parts")), whole)


def test_stopped_after_the_last_step_a_run_still_owes_its_evaluation(tmp_path: Path) -> None:
    training = toy_training(tmp_path, evaluate=scores(4, 3, 2))
    for record in training.records():
        if record.step == 11:
            os.kill(os.getpid(), signal.SIGTERM)
    assert (training.outcome, training.progress.step) == ("terminated", 12)
    resumed = toy_training(tmp_path, evaluate=scores(1))
    resumed.resume()
    assert told(list(resumed.records())) == [(12, "dev")]
    assert (resumed.outcome, resumed.progress.best) == ("finished", 1)
    assert equal(exported(resumed.run), weights(resumed))


def test_a_run_stopped_before_its_first_evaluation_has_a_model(tmp_path: Path) -> None:
    training = toy_training(tmp_path, evaluate=scores(), time_limit=1e-9)
    list(training.records())
    assert equal(exported(training.run), weights(training))


def spoil(step: int, value: float) -> ToyData:
    def change(number: int, points: Points) -> None:
        if number == step - 1:
            points[3, 4] = value

    return ToyData(accumulate=2, spoilt=change)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_a_loss_that_is_no_number_stops_the_run_and_leaves_its_batch(tmp_path: Path, value: float) -> None:
    training = toy_training(tmp_path, data=spoil(6, value), model=calm)
    before: dict[str, Tensor] = {}
    with pytest.raises(RunError, match=r"step 6 gave a loss of (nan|inf) .* \(samples 0, 1, 2, 3, 0, 1, 2, 3"):  # noqa: PT012
        for _ in training.records():
            before = weights(training)
    assert equal(weights(training), before)
    fault = json.loads((tmp_path / "fault-step-6" / "fault.json").read_text())
    assert (fault["step"], len(fault["samples"])) == (6, 8)
    losses = []
    for number in (0, 1):
        with np.load(tmp_path / "fault-step-6" / f"batch-{number}.npz") as arrays:
            losses.append(training.spec.criterion(torch.from_numpy(arrays["points"])).value.item())
    assert np.isfinite(losses).tolist() == [False, True]
    newest = training.run.checkpoints.newest()
    assert newest is not None
    assert newest.progress.step == 4


class SteepModel(ToyModel):
    """A finite loss whose gradient is not."""

    def forward(self, points: Tensor, counts=None):  # noqa: ANN001, ANN201
        loss = super().forward(points, counts)
        steep = torch.sqrt((self.line.weight * 0).sum())
        return type(loss)(value=loss.value + steep, parts=loss.parts)


def test_a_gradient_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    training = toy_training(tmp_path, model=SteepModel)
    before = weights(training)
    with pytest.raises(RunError, match=r"step 1 gave a loss of \d+\.\d+ and a gradient norm of nan"):
        list(training.records())
    assert equal(weights(training), before)


def test_a_spike_is_told(tmp_path: Path) -> None:
    training = toy_training(tmp_path, data=spoil(6, 60.0), model=calm)
    noted = {record.step: record.notes for record in training.records() if record.notes}
    assert list(noted) == [6]
    assert noted[6][0].startswith("loss spike: ")


def test_half_precision_with_scaling_needs_cuda() -> None:
    with pytest.raises(ConfigError, match=r"training\.precision is fp16, which needs a CUDA device; use"):
        current_process("cpu", "fp16")


def test_a_run_without_an_intact_checkpoint_is_not_silently_started_over(tmp_path: Path) -> None:
    finish(toy_training(tmp_path))
    before = (tmp_path / "status.json").read_bytes()
    for state in (tmp_path / "checkpoints").glob("*/state.json"):
        state.write_text("")
    with pytest.raises(InputError, match=r"no intact checkpoint found: .*step-00000012.*; start over with --overwrite"):
        toy_training(tmp_path).resume()
    assert (tmp_path / "status.json").read_bytes() == before


WRONG_TENSORS = {
    "weights.safetensors": "has another shape",
    "optimiser.safetensors": "of the optimiser has another shape",
    "processes.safetensors": "the state of the random generator is not one",
}


@pytest.mark.parametrize("file", WRONG_TENSORS)
def test_tensors_that_do_not_fit_are_named(tmp_path: Path, file: str) -> None:
    finish(toy_training(tmp_path))
    newest = max((tmp_path / "checkpoints").iterdir())
    tensors = load_file(newest / file)
    save_file({name: torch.zeros(3, 3, 3) for name in tensors}, newest / file)
    rewrite_state(newest)
    with pytest.raises(InputError, match=WRONG_TENSORS[file]):
        toy_training(tmp_path).resume()


def rewrite_state(checkpoint: Path) -> None:
    """With the size and sha256 that the files have now."""
    state = json.loads((checkpoint / "state.json").read_text())
    state.pop("sha256")
    for name in state["files"]:
        path = checkpoint / name
        state["files"][name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
    (checkpoint / "state.json").write_text(json.dumps({**state, "sha256": _digest(state)}))


def test_a_damaged_checkpoint_is_named_when_a_run_goes_back(tmp_path: Path) -> None:
    whole = finish(toy_training(tmp_path))
    (tmp_path / "checkpoints" / "step-00000012" / "state.json").write_text("")
    training = toy_training(tmp_path)
    notes = training.resume()
    assert notes[0].endswith("step-00000012/state.json: the checkpoint is damaged; skipped")
    assert notes[1] == "resumed after step 10"
    assert equal(finish(training), whole)
    assert training.run.checkpoints.steps() == [10, 12]
