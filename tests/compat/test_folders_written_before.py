"""Folders that were written before still load, predict the same, and can be gone on with.

The folders in `data/` were made by `python -m tests.compat.make_folders FOLDER` at commit 0990c78, on one thread of a
CPU in fp32, and are kept as they are: code that is moved and renamed must read them. Everything here goes through the
command line and the public names of `spanlab`. Numbers may differ in the fifth digit from CPU to CPU; texts, labels
and offsets may not differ at all.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import spanlab
from tests.compat.make_folders import command

DATA = Path(__file__).parent / "data"
CLOSE = {"rel": 1e-4, "abs": 1e-4}
RENAMED = {"body": ("backbone",), "data.columns": ("data.streams",)}
"""Keys of recipes that may have another name by now; what an old run's config.yaml says is to be understood anyway."""


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def names(folder: str) -> list[str]:
    return sorted(path.stem for path in (DATA / folder).glob("*.json"))


def assert_alike(found: Any, before: Any, place: str = "") -> None:
    """The same, but for the last digits of numbers."""
    if isinstance(before, dict):
        missing = before.keys() - found.keys()
        assert not missing, f"{place}: {sorted(missing)} are no longer told"
        for key, value in before.items():
            assert_alike(found[key], value, f"{place}.{key}")
    elif isinstance(before, list):
        assert len(found) == len(before), place
        for number, (one, other) in enumerate(zip(found, before, strict=True)):
            assert_alike(one, other, f"{place}[{number}]")
    elif isinstance(before, float):
        assert found == pytest.approx(before, **CLOSE), place
    else:
        assert found == before, place


# ---- what models were made of


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own to work in, as the runs were begun: with relative paths."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_tokenizer_makes_the_same_corpus(copied: Path) -> None:
    """Preparing the text anew gives the tokens, sentence and word boundaries that the kept corpus has."""
    before = DATA / "corpora" / "wordpiece"
    shutil.copy(DATA / "text.txt", "text.txt")
    layout = ("--documents", "blank-line", "--lines", "sentences", "--workers", "1")
    command("prepare", "text.txt", "--tokenizer", str(DATA / "tokenizer"), "--out", "corpus", *layout)
    written = [path.relative_to(before) for path in sorted(before.rglob("*.bin"))]
    assert written
    for path in written:  # the tokens with their boundaries, and how often each token stands there
        assert (copied / "corpus" / path).read_bytes() == (before / path).read_bytes(), path


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_a_prepared_corpus_opens(kind: str) -> None:
    told = json.loads(command("inspect", "corpus", str(DATA / "corpora" / kind), "--json"))
    assert told["counts"] == read(DATA / "corpora" / kind / "manifest.json")["counts"]


# ---- pre-trained models


@pytest.mark.parametrize("system", names("models"))
def test_a_pretrained_model_gives_the_same_vectors(system: str) -> None:
    before = read(DATA / "models" / f"{system}.json")
    folder = DATA / "models" / system
    encoder = spanlab.Encoder.from_pretrained(folder)
    assert sum(each.numel() for each in encoder.parameters()) == before["parameters"]
    texts = ["Anna sold the flour in Delft. She was glad.", "The mayor of Oslo crossed the river."]
    assert_alike(spanlab.load(folder, precision="fp32").encode(texts).tolist(), before["vectors"])


@pytest.mark.parametrize(
    "system", [name for name in names("models") if "fill" in read(DATA / "models" / f"{name}.json")]
)
def test_its_heads_fill_masks_alike(system: str) -> None:
    before = read(DATA / "models" / f"{system}.json")["fill"]
    told = json.loads(command("fill", str(DATA / "models" / system), before["text"], "--top", "2", "--json"))
    assert_alike(told, before)


def test_its_causal_head_goes_on_alike() -> None:
    before = read(DATA / "models" / "gpt.json")["generate"]
    asked = ("--max-new-tokens", "8", "--temperature", "0", "--json")
    told = json.loads(command("generate", str(DATA / "models" / "gpt"), before["prompt"], *asked))
    assert_alike(told, before)


# ---- fine-tuned models


def with_raw_spans(name: str, folder: Path) -> Path:
    """A copy of a model whose spans may begin and end inside words, as all could when it was made."""
    shutil.copytree(DATA / "tasks" / name, folder)
    described = read(folder / "spanlab.json")
    for task in described.get("tasks", {"": described}).values():
        if task["task"] in {"qa", "ner", "coref", "relation"}:
            task["settings"]["whole_words"] = False
    (folder / "spanlab.json").write_text(json.dumps(described), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", names("tasks"))
def test_a_fine_tuned_model_predicts_the_same(name: str, tmp_path: Path) -> None:
    model = spanlab.load(with_raw_spans(name, tmp_path / name), precision="fp32")
    for case in read(DATA / "tasks" / f"{name}.json"):
        (found,) = model.predict(case["input"], task=case["task"])
        assert_alike(found.to_dict(), case["said"])


@pytest.mark.parametrize("name", names("tasks"))
def test_a_model_that_knows_no_whole_words_predicts_them(name: str) -> None:
    """As before, but that parts of words are no longer among the best answers, and take no share of the probability."""
    model = spanlab.load(DATA / "tasks" / name, precision="fp32")
    for case in read(DATA / "tasks" / f"{name}.json"):
        (found,) = model.predict(case["input"], task=case["task"])
        said = case["said"]
        if "nbest" in said:
            said = {key: said[key] for key in said if key not in {"nbest", "score"}}
            words = re.findall(r"\w+", case["input"]["context"])
            assert all(set(re.findall(r"\w+", answer.answer)) <= set(words) for answer in found.nbest)
        assert_alike(found.to_dict(), said)


def test_the_command_line_predicts_the_same(copied: Path) -> None:
    case = read(DATA / "tasks" / "qa-pointers.json")[0]
    Path("asked.jsonl").write_text(json.dumps(case["input"]) + "\n", encoding="utf-8")
    told = command("predict", str(with_raw_spans("qa-pointers", copied / "qa")), "--input", "asked.jsonl", "--json")
    assert_alike(json.loads(told), case["said"])


# ---- runs that were interrupted


def records_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def assert_ended(run: Path, interrupted: Path, before: dict[str, Any]) -> None:
    """The run is finished, from where it was, with the losses that it would have had undisturbed."""
    assert read(run / "status.json")["state"] == "finished"
    records, done = records_of(run), records_of(interrupted)
    assert records[: len(done)] == done  # with their speeds: no step was done a second time
    assert_alike(records[len(done) :], before["records"])
    assert spanlab.load(run).encode("Anna sold the flour.").shape


def as_now_called(settings: dict[str, Any], recipe: str) -> dict[str, Any]:
    """Settings of a recipe under the names that the recipe has for them now."""
    known = yaml.safe_load(command("pretrain", recipe, "--print-config"))

    def is_known(key: str) -> bool:
        section, _, name = key.rpartition(".")
        return name in (known.get(section, {}) if section else known)

    def name_of(key: str) -> str:
        return next((name for name in (key, *RENAMED.get(key, ())) if key not in RENAMED or is_known(name)), key)

    return {name_of(key): value for key, value in settings.items()}


@pytest.mark.parametrize("name", names("pretraining"))
def test_an_interrupted_pretraining_goes_on(name: str, copied: Path) -> None:
    before = read(DATA / "pretraining" / f"{name}.json")
    recipe, kind = before["recipe"], before["corpus"]
    shutil.copytree(DATA / "pretraining" / name, "run")
    settings = as_now_called(before["settings"], recipe)
    given = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    shutil.copytree(DATA / "corpora" / kind, "corpus")
    command("pretrain", recipe, *given, "--data", "corpus", "--out", "run", "--resume", "--json")
    assert_ended(copied / "run", DATA / "pretraining" / name, before)


def test_another_config_is_still_refused(copied: Path) -> None:
    before = read(DATA / "pretraining" / "spanbert.json")
    shutil.copytree(DATA / "pretraining" / "spanbert", "run")
    shutil.copytree(DATA / "corpora" / "wordpiece", "corpus")
    settings = before["settings"] | {"training.lr": 0.5}
    with pytest.raises(Exception, match=r"was started with training\.lr"):
        spanlab.pretrain("spanbert", data="corpus", out="run", resume=True, **settings)


def test_an_interrupted_fine_tuning_goes_on(copied: Path) -> None:
    before = read(DATA / "finetuning" / "run.json")
    shutil.copytree(DATA / "finetuning" / "run", "run")
    shutil.copy(DATA / "finetuning" / "train.jsonl", "train.jsonl")
    shutil.copytree(DATA / "models" / "spanbert", before["given"]["model"])
    spanlab.finetune("classification", **before["given"], out="run", resume=True, **before["settings"])
    assert_ended(copied / "run", DATA / "finetuning" / "run", before)


def test_another_recipe_is_still_refused(copied: Path) -> None:
    """What the recipe changed since is as the run has it, but not what the command says."""
    before = read(DATA / "pretraining" / "spanbert.json")
    shutil.copytree(DATA / "pretraining" / "spanbert", "run")
    shutil.copytree(DATA / "corpora" / "wordpiece", "corpus")
    with pytest.raises(Exception, match=r"was started with system=spanbert, not bert"):
        spanlab.pretrain("bert", data="corpus", out="run", resume=True, **before["settings"])
    with pytest.raises(Exception, match=r"was started with backbone=None, not modernbert"):
        spanlab.pretrain("spanbert", data="corpus", out="run", resume=True, backbone="modernbert", **before["settings"])
