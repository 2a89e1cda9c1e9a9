"""Names in the box: what they stand for, wherever a model is asked for; a folder here comes first, and says so."""

import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

import spanlab
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError, LoadWarning
from spanlab.models import ELSEWHERE, NAMES, BundledModel, folder_of, list_models
from spanlab.models import box as the_box
from spanlab.models import minilm as the_minilm
from spanlab.models.minilm import find_minilm
from spanlab.text import Tokenizer
from tests.cli.run import run_here, run_spanlab


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a model in it whose code must not run."""
    package = tmp_path / "a_stranger_to_spanlab"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('this code was run')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    assert package.name not in sys.modules


def test_only_the_known_minilm_is_taken(stranger: Path) -> None:
    folder, problem = find_minilm(stranger.name)
    assert folder is None
    assert "missing from its package; use pip install" in problem
    (stranger / "model" / "model.safetensors").write_bytes(b"something else")
    assert "not the published file" in find_minilm(stranger.name)[1]
    assert find_minilm("no_such_package_anywhere")[1].endswith("use pip install 'spanlab[minilm]'")


def test_the_packaged_minilm_is_the_known_one(minilm: Path) -> None:
    assert find_minilm() == (minilm, "")
    assert folder_of("minilm") == minilm == locate_model("minilm")
    assert spanlab.load("minilm", device="cpu").encode(["a text"]).shape == (1, 384)


def test_without_the_extra_its_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(the_minilm, "find_spec", lambda name: None)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    problem = r"^MiniLM is not installed, and the hub does not answer; use pip install 'spanlab\[minilm\]'$"
    for name in ("minilm", "reader"):
        with pytest.raises(InputError, match=problem):
            spanlab.load(name)
    listed = json.loads(run_here("models", "--json").stdout)["models"]
    assert next(model for model in listed if model["name"] == "minilm")["folder"] is None
    shown = run_here("models").stdout
    assert "not installed" in shown
    assert "pip install 'spanlab[minilm]'" in shown


def test_without_the_extra_it_comes_from_the_hub_if_it_is_the_published_one(
    minilm: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def download(repository: str, *, revision: str, allow_patterns: list[str]) -> str:
        asked.append((repository, revision))
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(allow_patterns)
        return str(tmp_path / "hub")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(the_minilm, "find_spec", lambda name: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    shutil.copytree(minilm, tmp_path / "hub")
    assert locate_model("minilm") == tmp_path / "hub"
    assert asked == [(the_minilm.HUB_ID, the_minilm.REVISION)]
    (tmp_path / "hub" / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(InputError, match="is not the published file"):
        locate_model("minilm")


@pytest.fixture
def boxed(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model that comes under the name of one in the box, and a current directory without a folder of that name.

    The hub must not be asked.
    """
    monkeypatch.setattr(BundledModel, "folder", property(lambda self: tiny_model))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tiny_model


def test_every_command_takes_the_name(boxed: Path, tmp_path: Path) -> None:
    name = "spanbert-mini-en"
    Path("texts.txt").write_text("One text.\nAnother one.\n" * 30)
    Path("train.tsv").write_text("text\tlabel\n" + "a fine day\tgood\na dull day\tbad\n" * 4)
    small = ["training.steps=1", "training.batch_size=2", "training.threads=1", "training.precision=fp32"]
    commands = [
        ["fill", name, "a [MASK] day"],
        ["embed", name, "--input", "texts.txt", "--output", "vectors.npy"],
        ["inspect", "model", name],
        ["inspect", "attention", name, "a fine day"],
        ["convert", name, "--out", "full"],
        ["convert", name, "--compact", "--out", "small"],
        ["prepare", "texts.txt", "--tokenizer", name, "--out", "corpus", "--documents", "line", "--workers", "1"],
        ["pretrain", "bert", "--data", "corpus", "--init", name, "--out", "run", "objectives.nsp=0"],
        ["finetune", "classification", "--model", name, "--train", "train.tsv", "--dev", "train.tsv", "--out", "tuned"],
        ["data", "check", "classification", "train.tsv", "--tokenizer", name],
    ]
    for command in commands:
        settings = {"pretrain": [*small, "data.held_out=0", "data.phases=[]", "data.length=32"], "finetune": small}
        done = run_here(*command, *settings.get(command[0], []))
        assert done.returncode == 0, (command, done.stderr)
        assert "is a folder here" not in done.stderr
    done = run_here("predict", name, "--input", "texts.txt")
    assert done.returncode == 2  # an encoder without a task
    assert "no such" not in done.stderr
    assert spanlab.Encoder.from_pretrained(name).config == spanlab.Encoder.from_pretrained(boxed).config
    assert Tokenizer.load(name).fingerprint == Tokenizer.load(boxed).fingerprint
    assert spanlab.load(name, device="cpu").encode(["a text"]).shape == (1, 32)


def test_a_folder_of_the_name_comes_first_and_says_so(boxed: Path) -> None:
    for name in NAMES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert locate_model("spanbert-mini-en") == boxed
        folder = Path(shutil.copytree(boxed, name))
        with pytest.warns(LoadWarning, match=f"'{name}' is a folder here, and is used instead of the model of that"):
            assert locate_model(name) == folder
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert locate_model(f"./{name}") == folder
            assert locate_model(folder.resolve()) == folder.resolve()
        shutil.rmtree(folder)


def test_a_folder_of_the_name_that_is_no_model_is_not_meant(boxed: Path) -> None:
    Path("spanbert-mini-en").mkdir()
    (Path("spanbert-mini-en") / "__init__.py").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert locate_model("spanbert-mini-en") == boxed


def test_the_note_is_one_line_on_stderr(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_model, "spanbert-mini-en")
    done = run_spanlab("fill", "spanbert-mini-en", "a [MASK] day", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"]
    assert done.stderr.splitlines() == [
        "spanlab: 'spanbert-mini-en' is a folder here, and is used instead of the model of that name in "
        "`spanlab models`; ./spanbert-mini-en says so without this note"
    ]


def test_a_file_of_the_name_is_no_model(boxed: Path) -> None:
    Path("minilm").write_text("not a folder")
    Path("spanbert-mini-en").write_text("not a folder")
    assert locate_model("spanbert-mini-en") == boxed


@pytest.mark.parametrize("typo", ["spanbert-mini", "spanbert-mini-eng", "spanbert_mini_en", "SpanBERT-mini-en"])
def test_a_typo_gets_the_name(typo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=rf"no folder '{typo}' here \(did you mean 'spanbert-mini-en'\?\)"):
        locate_model(typo)
    with pytest.raises(InputError, match=r"spanbert-mini-en, minilm or a Hugging Face id$"):
        locate_model("no/such/folder")


def test_weights_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(the_box, "_WEIGHTS", "no such file")
    with pytest.raises(
        InputError, match="the weights of 'spanbert-mini-en' are missing from this installation; use pip"
    ):
        locate_model("spanbert-mini-en")


def test_the_command_lists_everything() -> None:
    report = json.loads(run_here("models", "--json").stdout)
    assert (
        [model["name"] for model in report["models"]] == list(NAMES) == [model.name for model in spanlab.list_models()]
    )
    for model in report["models"]:
        assert set(model) >= {"name", "task", "base", "parameters", "megabytes", "scores", "data_licence", "purpose"}
        assert model["purpose"]
        assert (model["megabytes"] is None) == (model["folder"] is None)
    assert report["elsewhere"] == dict(ELSEWHERE)
    shown = run_here("models").stdout
    for name in (*NAMES, *ELSEWHERE):
        assert name in shown
    assert "pip install 'spanlab[hf]'" in shown


def test_the_names_are_in_the_help_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("fill", "embed", "predict", "evaluate", "finetune", "pretrain", "convert", "prepare"):
        shown = " ".join(run_here(command, "--help").stdout.split())
        assert all(name in shown for name in NAMES), command


def test_the_list_imports_nothing_heavy() -> None:
    code = "import sys, spanlab; spanlab.list_models(); print({'torch', 'numpy', 'tokenizers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_numbers_of_the_list_are_those_of_the_files(minilm: Path) -> None:
    listed = next(model for model in list_models() if model.name == "minilm")
    encoder = spanlab.Encoder.from_pretrained(minilm)
    assert listed.parameters == sum(parameter.numel() for parameter in encoder.parameters())
    assert listed.megabytes == pytest.approx(91.6, abs=0.2)
