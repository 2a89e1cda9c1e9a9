"""The model that comes with the package: whole, small, and of use at once, without a network."""

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
import torch

import spanlab
from spanlab.atomic_io import sha256_of
from spanlab.encoder.pretrained import load_model
from spanlab.models import list_models
from spanlab.text import Tokenizer
from tests.cli.run import run_here

NAME = "spanbert-mini-en"
LISTED = next(model for model in list_models() if model.name == NAME)
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "spanlab" / "models" / NAME
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
needs_weights = pytest.mark.skipif(LISTED.folder is None, reason="the weights are not in the package yet: make box")
pytestmark = pytest.mark.filterwarnings("error::spanlab.errors.LoadWarning")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@needs_weights
def test_its_files_are_those_that_were_packed() -> None:
    lines = (FOLDER / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines)
    files = {path.name for path in FOLDER.iterdir()} - {"SHA256SUMS", "README.md"}
    assert set(listed) == files
    assert {name: sha256_of(FOLDER / name) for name in files} == listed


@needs_weights
def test_it_is_small_and_as_the_list_says() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 8e6
    model = load_model(NAME)
    weights = [*model.encoder.parameters(), *(weight for head in model.heads.values() for weight in head.parameters())]
    assert sum(weight.numel() for weight in weights) == LISTED.parameters
    assert set(model.heads) == {"mlm", "sbo"}
    assert model.described["system"] == "spanbert"
    assert LISTED.scores


@needs_weights
def test_packing_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for source, out, options in ((NAME, "full", []), ("full", "again", ["--compact"])):
        assert run_here("convert", source, "--out", str(tmp_path / out), *options).returncode == 0
    for name in ("model.safetensors", "heads.safetensors", "config.json", "spanlab.json", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (FOLDER / name).read_bytes(), name


@needs_weights
def test_masks_are_filled_with_words_that_make_sense() -> None:
    expected = {
        "She opened the [MASK] and went into the room.": {"door", "window", "gate"},
        "He looked at her with his [MASK] full of tears.": {"eyes", "face", "heart"},
        '"I do not know," [MASK] the old man.': {"said", "replied", "answered", "cried"},
    }
    for text, words in expected.items():
        done = run_here("fill", NAME, text, "--top", "10", "--json")
        assert done.returncode == 0, done.stderr
        (mask,) = json.loads(done.stdout)["runs"][0]["places"]
        candidates = {candidate["text"].strip() for candidate in mask["mlm"]}
        assert candidates & words, (text, candidates)


@needs_weights
def test_it_starts_fine_tuning_and_pre_training(tmp_path: Path) -> None:
    Path("texts.txt").write_text("The ship came into the harbour, and the captain went ashore.\n" * 3)
    Path("train.tsv").write_text("text\tlabel\n" + "a fine day\tgood\na dull day\tbad\n" * 4)
    small = ["training.steps=1", "training.batch_size=2", "training.threads=1", "training.precision=fp32"]
    files = ["--train", "train.tsv", "--dev", "train.tsv"]
    one_sample = ["data.held_out=0", "data.phases=[]", "data.length=32", *small]
    for command in (
        ["finetune", "classification", "--model", NAME, *files, "--out", "tuned", *small],
        ["prepare", "texts.txt", "--tokenizer", NAME, "--out", "corpus", "--workers", "1"],
        ["pretrain", "spanbert", "--data", "corpus", "--init", NAME, "--out", "run", *one_sample],
    ):
        done = run_here(*command)
        assert done.returncode == 0, done.stderr
    assert "new heads" not in done.stderr
    assert spanlab.load(NAME, device="cpu").encode(["a text"]).shape == (1, 256)


@needs_weights
def test_transformers_loads_it_in_fp32(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    assert run_here("convert", NAME, "--out", "full").returncode == 0
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained("full", output_loading_info=True)
    assert not report["missing_keys"]
    ours = load_model(NAME)
    ids_BT = torch.tensor([Tokenizer.load(NAME).encode("The ship came into the harbour .").ids.tolist()])
    with torch.no_grad():
        expected_TV = theirs.eval()(ids_BT).logits[0]
        hidden_TD = ours.encoder.eval()(ids_BT).hidden[0]
        found_TV = ours.heads["mlm"].eval()(hidden_TD, ours.encoder.word_table)
    assert torch.allclose(found_TV, expected_TV, atol=1e-3)


@needs_weights
def test_its_card_is_complete() -> None:
    assert "TO FILL IN" not in CARD


def test_its_card_says_what_it_must() -> None:
    for words in (
        "CC BY-SA",
        "public domain",
        "12,288",
        "spanlab pretrain spanbert --data novels:3",
        "## Limits",
        "transformers loads",
    ):
        assert words in CARD
    assert re.match(r"---\nlanguage: en\n", CARD)


def test_the_wheel_holds_all_of_it(tmp_path: Path) -> None:
    """The build leaves out what git ignores."""
    files = sorted(path for path in FOLDER.iterdir())
    names = [str(path.relative_to(ROOT)) for path in files]
    try:
        ignored = subprocess.run(["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True, check=False)
        assert ignored.stdout == ""
    except FileNotFoundError:
        pytest.skip("no git here")
    builders = pytest.importorskip("hatchling.builders.wheel", reason="the build backend is not installed")
    (wheel,) = builders.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    assert {name.removeprefix("src/") for name in names} <= inside
