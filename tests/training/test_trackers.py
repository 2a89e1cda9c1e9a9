"""Each tracker for real, offline, read back with its own reader; skipped where it is not installed."""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spanlab.errors import ConfigError, MissingExtraError
from spanlab.training.records import Record
from spanlab.training.trackers import TrackedRun, open_trackers

CONFIG = {"seed": 3, "training": {"lr": 1e-4, "betas": [0.9, 0.999], "lr_factors": {}}}
IMPORTED = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "mlflow": "mlflow", "trackio": "trackio"}


def log(name: str, folder: Path, steps: range, factor: float = 1.0) -> None:
    """Track these steps, each with a loss of step times factor, and the last one's evaluation."""
    (tracker,) = open_trackers([name], folder, "legal", CONFIG)
    for step in steps:
        tracker.log(record(step, "train", {"loss": step * factor, "loss.mlm": 0.5}))
    tracker.log(record(steps[-1], "dev", {"loss": 100.0 * factor}))
    tracker.close()


def record(step: int, split: Any, metrics: dict[str, float]) -> Record:
    return Record(step=step, epoch=step / 8, split=split, metrics=metrics)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder, with every tracker kept on this machine."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "TRACKIO_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    yield run
    assert [path.name for path in tmp_path.iterdir() if path.name != "trackio"] == ["run"], "written beside the run"


@pytest.mark.parametrize("name", IMPORTED)
def test_a_tracker_that_is_not_installed_is_named_with_the_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, IMPORTED[name], None)
    with pytest.raises(MissingExtraError, match=rf"tracking with {name} needs.*pip install 'spanlab\[track\]'"):
        open_trackers([name], tmp_path, "legal", CONFIG)


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'tensorboard'"):
        open_trackers(["tensorbord"], tmp_path, "legal", CONFIG)


def test_a_run_remembers_its_identities_and_flattens_its_config(tmp_path: Path) -> None:
    run = TrackedRun(folder=tmp_path, name="legal", config=CONFIG)
    assert run.id_of("wandb") is None
    run.save_id("wandb", "a1")
    run.save_id("mlflow", "b2")
    assert (run.id_of("wandb"), run.id_of("mlflow")) == ("a1", "b2")
    assert json.loads((tmp_path / "trackers.json").read_text(encoding="utf-8")) == {"wandb": "a1", "mlflow": "b2"}
    assert run.flat_config() == {
        "seed": 3,
        "training.lr": 1e-4,
        "training.betas": [0.9, 0.999],
        "training.lr_factors": {},
    }


def test_tensorboard_shows_a_resumed_run_as_one(folder: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log("tensorboard", folder, range(1, 6))
    log("tensorboard", folder, range(4, 8), factor=-1.0)
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"train/loss", "train/loss.mlm", "dev/loss"}
    losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert losses == [(1, 1.0), (2, 2.0), (3, 3.0), (4, -4.0), (5, -5.0), (6, -6.0), (7, -7.0)]
    assert b"lr: 0.0001" in events.Tensors("config/text_summary")[0].tensor_proto.string_val[0]


def test_mlflow_goes_on_with_the_same_run(folder: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    log("mlflow", folder, range(1, 4))
    log("mlflow", folder, range(4, 6))
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("spanlab")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("legal", "FINISHED")
    assert run.data.params["training.lr"] == "0.0001"
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert sorted((metric.step, metric.value) for metric in history) == [(step, float(step)) for step in range(1, 6)]
    assert [metric.step for metric in client.get_metric_history(run.info.run_id, "dev/loss")] == [3, 5]


def test_mlflow_begins_anew_where_the_server_does_not_know_the_run(folder: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    TrackedRun(folder=folder, name="legal", config=CONFIG).save_id("mlflow", "0" * 32)
    log("mlflow", folder, range(1, 3))
    run_id = json.loads((folder / "trackers.json").read_text(encoding="utf-8"))["mlflow"]
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    assert client.get_run(run_id).data.metrics["train/loss"] == 2.0


def test_mlflow_keeps_what_a_server_did_not_take(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    (tracker,) = open_trackers(["mlflow"], folder, "legal", CONFIG)

    def refuse(*_: Any, **__: Any) -> None:
        raise mlflow.exceptions.MlflowException("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "log_batch", refuse)
        with pytest.warns(UserWarning, match="rejected 1 metrics: out of order"):
            tracker.log(record(1, "dev", {"loss": 1.0}))
    tracker.log(record(2, "dev", {"loss": 2.0}))
    tracker.close()
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    run_id = json.loads((folder / "trackers.json").read_text(encoding="utf-8"))["mlflow"]
    assert [metric.value for metric in client.get_metric_history(run_id, "dev/loss")] == [1.0, 2.0]


def test_wandb_goes_on_with_the_same_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    log("wandb", folder, range(1, 4))
    identity = json.loads((folder / "trackers.json").read_text(encoding="utf-8"))["wandb"]
    time.sleep(1.1)  # W&B names the folder of a session by the second it began in
    log("wandb", folder, range(3, 5), factor=-1.0)
    wandb.teardown()  # its service writes the last of a file after `finish` has returned
    files = sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    assert {file.stem for file in files} == {f"run-{identity}"}
    rows = [row for file in files for row in wandb_rows(file)]
    losses = [(row["step"], row["train/loss"]) for row in rows if "train/loss" in row]
    assert losses == [(1, 1.0), (2, 2.0), (3, 3.0), (3, -3.0), (4, -4.0)]
    assert [row["step"] for row in rows if "dev/loss" in row] == [3, 4]
    assert capfd.readouterr().out == ""


def wandb_rows(path: Path) -> list[dict[str, Any]]:
    """The history in W&B's file: after 7 bytes, blocks of 32 KiB of records, each with checksum, length and type."""
    from wandb.proto import wandb_internal_pb2

    content, place, rows = path.read_bytes(), 7, []
    while place + 7 <= len(content):
        assert place + 7 <= 32768, "this test writes less than a block"
        _, length, kind = struct.unpack_from("<IHB", content, place)
        assert kind == 1, "a whole record"
        row = wandb_internal_pb2.Record()
        row.ParseFromString(content[place + 7 : place + 7 + length])
        if row.HasField("history"):
            items = row.history.item
            rows.append({item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items})
        place += 7 + length
    return rows


def test_trackio_goes_on_with_the_same_run_and_leaves_stdout_alone(folder: Path) -> None:
    pytest.importorskip("trackio", reason="trackio is not installed")
    # In a process of its own: trackio takes its folder when it is imported, and speaks once more at exit.
    code = (
        "import json, pathlib, sys\n"
        "from tests.training.test_trackers import log\n"
        "from trackio.sqlite_storage import SQLiteStorage\n"
        "log('trackio', pathlib.Path(sys.argv[1]), range(1, 4))\n"
        "log('trackio', pathlib.Path(sys.argv[1]), range(4, 6))\n"
        "runs = SQLiteStorage.get_runs('spanlab')\n"
        "print(json.dumps({name: SQLiteStorage.get_logs('spanlab', name) for name in runs}))"
    )
    repository = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "TRACKIO_DIR": str(folder.parent / "trackio"), "PYTHONPATH": os.pathsep.join(sys.path)}
    outcome = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=repository, env=environment, capture_output=True, check=True
    )
    ((name, rows),) = json.loads(outcome.stdout).items()
    assert name.startswith("legal-")
    losses = [(row["step"], row["train/loss"]) for row in rows if "train/loss" in row]
    assert losses == [(step, float(step)) for step in range(1, 6)]
