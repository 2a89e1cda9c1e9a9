"""A model whose numbers overflow gives no result: an error names the input, in Python and at the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import spanlab
from spanlab.encoder import CausalLMHead, TransformerEncoder, load_model, preset, save_model
from spanlab.errors import InputError, SpanlabError
from spanlab.inference.fill import Filler
from spanlab.inference.finite_results import check_outputs, check_results
from spanlab.inference.load import load
from spanlab.tasks.classification import ClassificationResult
from spanlab.tasks.formats.row import Row
from spanlab.tasks.sample import Sample
from spanlab.text import Tokenizer
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_spanlab
from tests.encoder.test_hostile_folders import edit_weights
from tests.tasks.almanac_files import write_topics

NAME = "bert__encoder__layer__1__output__dense__weight"


@pytest.fixture(scope="module")
def topics(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model fine-tuned for a moment."""
    folder = tmp_path_factory.mktemp("topics")
    train, dev = write_topics(folder / "data")
    settings = {"training": {"steps": 2, "precision": "fp32", "device": "cpu"}}
    finetune("classification", model=tiny_model, train=train, dev=dev, out=folder / "run", **settings)
    return folder / "run" / "model"


@pytest.fixture
def overflowing(topics: Path, tmp_path: Path) -> Path:
    """The same with weights that are finite, and no product of them is."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in topics.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    edit_weights(folder / "model.safetensors", **{NAME: lambda t: torch.full_like(t, 3e38)})
    return folder


def test_predict_and_embed_name_the_input(overflowing: Path) -> None:
    model = load(overflowing, device="cpu", precision="fp32")
    with pytest.raises(InputError, match=r"^input 0: the model's numbers overflow on this input"):
        model.predict(["she won the race", "the river rose"])
    with pytest.raises(InputError, match=r"^text 0: the model's numbers overflow on this input"):
        model.encode(["she won the race"])


def test_commands_end_with_2_and_write_nothing(overflowing: Path, tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npy"
    texts.write_text("she won the race\nthe river rose\n")
    for arguments in (
        ("predict", str(overflowing), "--input", str(texts), "--json"),
        ("embed", str(overflowing), "--input", str(texts), "--output", str(out)),
    ):
        done = run_spanlab(*arguments)
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        assert "overflow" in done.stderr
    assert not out.exists()


def test_nan_weights_never_get_that_far(topics: Path, overflowing: Path, tmp_path: Path) -> None:
    edit_weights(overflowing / "model.safetensors", **{NAME: lambda t: t * float("nan")})
    with pytest.raises(SpanlabError, match="is not finite"):
        spanlab.load(overflowing)
    edit_weights(overflowing / "model.safetensors", **{NAME: torch.zeros_like})
    edit_weights(overflowing / "model.safetensors", classifier__bias=lambda t: t * float("inf") + 1)
    with pytest.raises(SpanlabError, match="is not finite"):
        spanlab.load(overflowing)
    done = run_spanlab("predict", str(overflowing), "--input", "-", "--json")
    assert (done.returncode, done.stdout) == (2, "")


def test_fill(tiny_model: Path) -> None:
    model = load_model(tiny_model)
    filler = Filler.from_model(model, Tokenizer.load(tiny_model))
    with torch.no_grad():
        model.encoder.get_submodule("layers.1.0.feed_forward.down").weight.fill_(3e38)  # type: ignore[operator,union-attr]
    with pytest.raises(InputError, match="overflow"):
        filler.fill("the [MASK] rose")


def test_generation(tiny_model: Path, tmp_path: Path) -> None:
    config = preset("gpt2", "tiny", vocab_size=Tokenizer.load(tiny_model).vocab_size, max_positions=64)
    encoder = TransformerEncoder(config)
    with torch.no_grad():
        encoder.word_table.fill_(3e38)
    save_model(tmp_path, encoder, {"clm": CausalLMHead(config)}, tokenizer_folder=tiny_model)
    for options in ((), ("--temperature", "0.7")):
        done = run_spanlab("generate", str(tmp_path), "the river", "--max-new-tokens", "3", *options)
        assert done.returncode == 2, done.stderr
        assert "overflow" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.array([1.0, np.nan]), (torch.tensor([torch.inf]),)])
def test_every_kind_of_output(value: object) -> None:
    row = Row(values={}, path="a.txt", line=7)
    sample = Sample(example=0, sequences=())
    with pytest.raises(InputError, match=r"^a.txt:7: "):
        check_outputs([row], [sample], [{"scores": [value]}])
    check_outputs([row], [sample], [np.array([-np.inf, 1.0])])  # what cannot be has no probability


def test_results() -> None:
    good = ClassificationResult(id="0", label="a", score=0.5, scores={"a": 0.5})
    check_results([Row(values={})], [good])
    bad = ClassificationResult(id="0", label="a", score=0.5, scores={"a": float("nan")})
    assert "NaN" in json.dumps(bad.to_dict())
    with pytest.raises(InputError, match="overflow"):
        check_results([Row(values={})], [bad])
