"""A model is trained again as its folder says: the same score, and refusals before anything runs."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

import spanlab
from spanlab.errors import InputError
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.workflows.provenance import PROVENANCE, read_provenance
from spanlab.workflows.reproduce import plan_reproduction, reproduce
from tests.cli.run import run_here
from tests.tasks.almanac_files import write_topics

SETTINGS = {"steps": 6, "lr": 1e-3, "batch_size": 8, "threads": 1, "precision": "fp32", "eval_every": 3}
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def place(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of a classifier, its data and the model it started from."""
    folder = tmp_path_factory.mktemp("reproduced")
    train, dev = write_topics(folder / "data")
    shutil.copytree(tiny_model, folder / "start")
    spanlab.finetune(
        "classification", model=folder / "start", train=train, dev=dev, out=folder / "run", training=SETTINGS
    )
    return folder


def test_a_run_is_reproduced_to_the_last_bit(place: Path, tmp_path: Path) -> None:
    plan = plan_reproduction(str(place / "run"), out=str(tmp_path / "again"))
    comparison = reproduce(plan, tolerance=0)
    assert comparison.same
    assert comparison.original == comparison.reproduced == read_provenance(place / "run" / "model").score
    assert comparison.metric == "accuracy"
    assert all(before == now for before, now in comparison.scores.values())
    weights = [(folder / "model" / WEIGHTS).read_bytes() for folder in (place / "run", tmp_path / "again")]
    assert weights[0] == weights[1]
    finished = plan_reproduction(str(place / "run"), out=str(tmp_path / "again"))
    assert finished.finished
    assert reproduce(finished, tolerance=0).same


def test_a_model_given_away_is_reproduced_from_a_folder_of_data(place: Path, tmp_path: Path) -> None:
    """The model folder alone, and its files elsewhere, in another order."""
    model = Path(shutil.copytree(place / "run" / "model", tmp_path / "given"))
    text = (model / PROVENANCE).read_text(encoding="utf-8")
    assert str(place) not in text
    assert str(Path.home()) not in text
    for name, target in (("train.jsonl", "a/deep"), ("dev.jsonl", "b"), ("train.jsonl", "0-other")):
        (tmp_path / "files" / target).mkdir(parents=True)
        shutil.copy(place / "data" / name, tmp_path / "files" / target / name)
    with (tmp_path / "files" / "0-other" / "train.jsonl").open("a") as file:
        file.write("\n")  # another file of the same name is passed over
    shutil.copytree(place / "start", tmp_path / "files" / "start")
    out = str(tmp_path / "again")
    done = run_here("reproduce", str(model), "--data", str(tmp_path / "files"), "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["same"]
    assert report["difference"] == 0
    assert "this runs: spanlab finetune classification --model" in done.stderr
    assert "it took " in done.stderr


def test_changed_and_missing_data_is_refused_before_anything_runs(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Path(shutil.copytree(place / "run" / "model", tmp_path / "given"))
    shutil.copytree(place / "data", tmp_path / "data")
    with pytest.raises(InputError, match="no folder 'start' here"):
        plan_reproduction(str(model), data=tmp_path / "data", out="again")
    shutil.copytree(place / "start", tmp_path / "data" / "start")
    assert plan_reproduction(str(model), data=tmp_path / "data", out="again").provenance.command == "finetune"
    dev = tmp_path / "data" / "dev.jsonl"
    kept = dev.read_text()
    dev.write_text(kept.replace("river", "rivers", 1))
    done = run_here("reproduce", str(model), "--data", "data", "--out", "again")
    assert done.returncode == 2
    assert "dev.jsonl: not the dev data that the model was trained on: sha256 " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    dev.unlink()
    with pytest.raises(InputError, match=r"dev\.jsonl, the dev data that the model was trained on, is not here; give"):
        plan_reproduction(str(model), data=tmp_path / "data", out="again")
    dev.write_text(kept)
    weights = tmp_path / "data" / "start" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match=f"not the model that the training started from: {WEIGHTS} has sha256"):
        plan_reproduction(str(model), data=tmp_path / "data", out="again")
    assert not Path("again").exists()


def test_a_stopped_reproduction_goes_on(place: Path, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(record: Record) -> None:
        if record.step == 5:
            raise StoppedError

    out = str(tmp_path / "again")
    with pytest.raises(StoppedError):
        reproduce(plan_reproduction(str(place / "run"), out=out), tolerance=0, on_record=stop)
    assert not (tmp_path / "again" / "model" / PROVENANCE).exists()
    steps: list[int] = []
    plan = plan_reproduction(str(place / "run"), out=out)
    assert plan.job.resume
    comparison = reproduce(plan, tolerance=0, on_record=lambda record: steps.append(record.step))
    assert comparison.same
    assert min(steps) > 3  # from the checkpoint after step 3


def test_another_score_is_an_error_beyond_the_tolerance(place: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(place / "run", tmp_path / "run")) / "model"
    record = json.loads((model / PROVENANCE).read_text())
    record["score"] -= 0.25
    (model / PROVENANCE).write_text(json.dumps(record))
    out = str(tmp_path / "again")
    done = run_here("reproduce", str(tmp_path / "run"), "--out", out)
    assert done.returncode == 1, done.stderr
    assert "accuracy differs by +0.25, more than the tolerance of 0.01; --tolerance sets it" in done.stderr
    assert "not reproduced, by accuracy" in done.stdout
    assert run_here("reproduce", str(tmp_path / "run"), "--out", out, "--tolerance", "0.5").returncode == 0


def test_models_that_do_not_say_how_they_were_trained(tiny_model: Path, place: Path, tmp_path: Path) -> None:
    done = run_here("reproduce", str(tiny_model))
    assert done.returncode == 2
    assert "no reproduce.json in this model folder: it does not say how it was trained; train it again" in done.stderr
    done = run_here("reproduce", "reader")
    assert done.returncode == 2
    assert "make reader DATA=folder" in done.stderr
    done = run_here("reproduce", "spanbert-mini-en")
    assert "spanlab pretrain spanbert --data novels:3 --data wiki:1" in done.stderr
    model = Path(shutil.copytree(place / "run" / "model", tmp_path / "old"))
    record = json.loads((model / PROVENANCE).read_text())
    (model / PROVENANCE).write_text(json.dumps({**record, "format_version": 0}))
    with pytest.raises(InputError, match="the record has format 0; this version of SpanLab reads 1; reproduce it with"):
        plan_reproduction(str(model), out=str(tmp_path / "again"))


def test_a_run_of_something_else_is_not_taken_for_the_reproduction(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "other"
    data = place / "data"
    spanlab.finetune(
        "classification",
        model=place / "start",
        train=data / "train.jsonl",
        dev=data / "dev.jsonl",
        out=out,
        training={**SETTINGS, "lr": 2e-3},
    )
    plan = plan_reproduction(str(place / "run"), out=str(out))
    with pytest.raises(InputError, match=r"the run was started with training\.lr=0\.002, not 0\.001"):
        reproduce(plan, tolerance=1)


def test_pre_training_is_reproduced(small_corpus: Path, tmp_path: Path) -> None:
    corpus = Path(shutil.copytree(small_corpus, tmp_path / "here" / "corpus"))
    settings = {"steps": 4, "batch_size": 4, "threads": 1, "precision": "fp32", "eval_every": 2}
    shape = {"size": "tiny", "backbone": "bert", "data.length": 32, "encoder": {"layers": 1, "width": 32, "heads": 2}}
    spanlab.pretrain("spanbert", data=corpus, out=tmp_path / "run", training=settings, **shape)
    record = read_provenance(tmp_path / "run" / "model")
    assert (record.command, record.metric, [file.role for file in record.inputs]) == ("pretrain", "loss", ["corpus"])
    corpus.rename(tmp_path / "moved")
    with pytest.raises(InputError, match="corpus, the corpus data that the model was trained on, is not here"):
        plan_reproduction(str(tmp_path / "run"), out=str(tmp_path / "again"))
    (tmp_path / "moved").rename(tmp_path / "corpus")
    plan = plan_reproduction(str(tmp_path / "run"), data=tmp_path / "corpus", out=str(tmp_path / "again"))
    assert reproduce(plan, tolerance=0).same
    shard = next((tmp_path / "corpus").glob("*.bin"))
    shard.write_bytes(bytes([shard.read_bytes()[0] ^ 1]) + shard.read_bytes()[1:])
    with pytest.raises(InputError, match="is damaged: its bytes changed"):
        plan_reproduction(str(tmp_path / "run"), data=tmp_path / "corpus", out=str(tmp_path / "third"))


def test_a_list_of_tasks_is_reproduced_from_files_of_the_same_names(tiny_model: Path, tmp_path: Path) -> None:
    entries = []
    for name in ("first", "second"):
        train, _ = write_topics(tmp_path / "data" / name)
        if name == "second":
            train.write_text("\n".join(train.read_text().splitlines()[:20]) + "\n")
        files = {"train": f"{name}/train.jsonl", "dev": f"{name}/dev.jsonl"}
        entries.append({"name": name, "task": "classification", **files})
    (tmp_path / "data" / "tasks.yaml").write_text(yaml.safe_dump(entries))
    tasks = tmp_path / "data" / "tasks.yaml"
    spanlab.finetune("multitask", model=tiny_model, train=tasks, out=tmp_path / "run", training=SETTINGS)
    shutil.copytree(tmp_path / "run" / "model", tmp_path / "given")
    shutil.copytree(tiny_model, tmp_path / "data" / tiny_model.name)
    out = tmp_path / "again"
    plan = plan_reproduction(str(tmp_path / "given"), data=tmp_path / "data", out=str(out))
    comparison = reproduce(plan, tolerance=0)
    assert comparison.same
    assert comparison.metric == "combined"
    weights = [(folder / "model" / "heads.safetensors").read_bytes() for folder in (tmp_path / "run", out)]
    assert weights[0] == weights[1]
    assert RunFolder(out).read_status().finished
