"""Encoders that transformers computes: every weight is there and finite, or a line says which is not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from spanlab.encoder import TransformerEncoder, load_model, preset, save_model
from spanlab.encoder.transformers_encoder import TransformersEncoder
from spanlab.errors import SpanlabError, WeightsError
from tests.cli.run import run_spanlab
from tests.encoder.test_hostile_folders import bounded, edit, edit_weights

transformers = pytest.importorskip("transformers")
SHAPE = {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 2, "vocab_size": 41}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A DistilBERT with an MLM head, which SpanLab does not know."""
    made = transformers.DistilBertForMaskedLM(transformers.DistilBertConfig(**SHAPE))
    made.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_that_fits(folder: Path) -> None:
    model = load_model(folder)
    assert isinstance(model.encoder, TransformersEncoder)
    assert model.report.unexpected[:2] == ("vocab_layer_norm.bias", "vocab_layer_norm.weight")
    assert "vocab_layer_norm.weight" in run_spanlab("inspect", "model", str(folder)).stdout


def test_a_renamed_type_is_refused(tmp_path: Path, folder: Path) -> None:
    bert = tmp_path / "bert"
    save_model(bert, TransformerEncoder(preset("bert", "tiny", vocab_size=41)))
    edit(bert / "config.json", model_type="distilbert")
    with pytest.raises(SpanlabError, match="saved as BertModel, which is of type 'bert'; set model_type to 'bert'"):
        load_model(bert)
    edit(bert / "config.json", model_type="distilbert", architectures=None)
    with pytest.raises(WeightsError, match=r"missing weights: .* more"):
        load_model(bert)
    done = run_spanlab("inspect", "model", str(bert))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1


def test_missing_weights_are_named(folder: Path) -> None:
    edit_weights(folder / "model.safetensors", distilbert__transformer__layer__1__ffn__lin1__bias=None)
    with pytest.raises(WeightsError, match=r"missing weights: transformer.layer.1.ffn.lin1.bias"):
        load_model(folder)


def test_weights_that_are_not_finite(folder: Path) -> None:
    name = "distilbert__transformer__layer__1__ffn__lin1__bias"
    edit_weights(folder / "model.safetensors", **{name: lambda t: t + float("nan")})
    with pytest.raises(WeightsError, match=r"transformer.layer.1.ffn.lin1.bias' is not finite"):
        load_model(folder)


def test_a_pooler_that_the_file_lacks_is_not_made_up(tmp_path: Path) -> None:
    config = transformers.MPNetConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=41
    )
    transformers.MPNetForMaskedLM(config).save_pretrained(tmp_path)
    encoder = load_model(tmp_path).encoder
    assert encoder.pooler is None
    assert encoder(torch.tensor([[5, 6, 7]])).pooled is None


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": 10**9},
        {"dim": 65_536, "hidden_dim": 10**6},
        {"n_layers": 10**5},
        {"n_layers": 1000, "dim": 4096},
        {"vocab_size": 3_000_000},
        {"vocab_size": 10**9},
        {"hidden_dim": 10**9},
        {"max_position_embeddings": 10**9},
        {"n_heads": 0},
        {"n_heads": 7},
        {"dim": "x"},
        {"dim": None},
        {"vocab_size": [1]},
        {"n_layers": -1},
        {"pad_token_id": 41},
        {"pad_token_id": "x"},
        {"activation": 5},
        {"activation": "nothing"},
        {"architectures": 5},
        {"architectures": {"a": 1}},
        {"model_type": "no-such-type"},
        {"model_type": "vit"},
        {"auto_map": {"AutoModel": "code.Model"}, "model_type": "own"},
        {"quantization_config": 5},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
    ],
    ids=str,
)
def test_configs_that_ask_for_too_much_or_for_nonsense(changes: dict[str, Any], folder: Path) -> None:
    edit(folder / "config.json", **changes)
    with pytest.raises(SpanlabError) as caught, bounded(seconds=10):
        load_model(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_files(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}  # not mapped from the file
    for damaged in (b"", content[:100], content[: len(content) // 2], b"x" * 1000):
        path.write_bytes(damaged)
        with pytest.raises(SpanlabError):
            load_model(folder)
    path.unlink()
    torch.save({"a": Path("b")}, folder / "pytorch_model.bin")
    with pytest.raises(SpanlabError):
        load_model(folder)
    save_file(tensors, path)
    (folder / "config.json").write_text(json.dumps({"model_type": "distilbert"}))
    with pytest.raises(SpanlabError):
        load_model(folder)
