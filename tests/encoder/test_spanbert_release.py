"""SpanBERT's own pre-training file, made here in its published layout, becomes a model folder."""

import argparse
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from spanlab.encoder import SpanBoundaryHead, load_model
from spanlab.encoder.pretrained.spanbert_release import read_spanbert_release
from spanlab.errors import WeightsError
from tests.cli.run import run_spanlab

VOCAB, WIDTH, INNER, LAYERS, POSITIONS = 71, 128, 256, 2, 32


def linear(name: str, rows: int, columns: int) -> dict[str, Tensor]:
    return {f"{name}.weight": torch.randn(rows, columns), f"{name}.bias": torch.randn(rows)}


def norm(name: str) -> dict[str, Tensor]:
    return {f"{name}.gamma": torch.randn(WIDTH), f"{name}.beta": torch.randn(WIDTH)}


def release_state() -> dict[str, Tensor]:
    embeddings = "decoder.bert.embeddings"
    word = torch.randn(VOCAB, WIDTH)
    state = {
        f"{embeddings}.word_embeddings.weight": word,
        f"{embeddings}.position_embeddings.weight": torch.randn(POSITIONS, WIDTH),
        f"{embeddings}.token_type_embeddings.weight": torch.randn(2, WIDTH),
        **norm(f"{embeddings}.LayerNorm"),
        **linear("decoder.bert.pooler.dense", WIDTH, WIDTH),
        **linear("decoder.cls.predictions.transform.dense", WIDTH, WIDTH),
        **norm("decoder.cls.predictions.transform.LayerNorm"),
        "decoder.cls.predictions.bias": torch.randn(VOCAB),
        "decoder.cls.predictions.decoder.weight": word.clone(),
        "decoder.cls.pair_target_predictions.position_embeddings.weight": torch.randn(15, 200),
        **linear("decoder.cls.pair_target_predictions.mlp_layer_norm.linear1", WIDTH, 2 * WIDTH + 200),
        **norm("decoder.cls.pair_target_predictions.mlp_layer_norm.layer_norm1"),
        **linear("decoder.cls.pair_target_predictions.mlp_layer_norm.linear2", WIDTH, WIDTH),
        **norm("decoder.cls.pair_target_predictions.mlp_layer_norm.layer_norm2"),
        "decoder.cls.pair_target_predictions.bias": torch.randn(VOCAB),
        "decoder.cls.pair_target_predictions.decoder.weight": word.clone(),
    }
    for layer in range(LAYERS):
        at = f"decoder.bert.encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            state |= linear(f"{at}.attention.self.{part}", WIDTH, WIDTH)
        state |= linear(f"{at}.attention.output.dense", WIDTH, WIDTH) | norm(f"{at}.attention.output.LayerNorm")
        state |= linear(f"{at}.intermediate.dense", INNER, WIDTH) | linear(f"{at}.output.dense", WIDTH, INNER)
        state |= norm(f"{at}.output.LayerNorm")
    return state


@pytest.fixture
def release(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint_best.pt"
    torch.save({"model": release_state(), "args": argparse.Namespace(arch="cased_bert_pair_large")}, path)
    return path


def pair_logits(state: dict[str, Tensor], left: Tensor, right: Tensor, offset: Tensor) -> Tensor:
    """The published pair head, written out."""
    at = "decoder.cls.pair_target_predictions"

    def layer(x: Tensor, number: int) -> Tensor:
        linear_name, norm_name = f"{at}.mlp_layer_norm.linear{number}", f"{at}.mlp_layer_norm.layer_norm{number}"
        x = nn.functional.gelu(x @ state[f"{linear_name}.weight"].T + state[f"{linear_name}.bias"])
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return scaled * state[f"{norm_name}.gamma"] + state[f"{norm_name}.beta"]

    x = torch.cat([left, right, state[f"{at}.position_embeddings.weight"][offset]], dim=-1)
    return layer(layer(x, 1), 2) @ state[f"{at}.decoder.weight"].T + state[f"{at}.bias"]


def test_encoder_mlm_and_pair_head_are_read(release: Path) -> None:
    state = torch.load(release, weights_only=False)["model"]
    model = read_spanbert_release(release)
    assert (model.encoder.config.layers, model.encoder.config.heads, model.encoder.config.inner_width) == (2, 2, 256)
    assert set(model.heads) == {"mlm", "sbo"}
    assert model.report.unexpected == ()
    head = model.head("sbo")
    assert isinstance(head, SpanBoundaryHead)
    left, right, offset = torch.randn(6, WIDTH), torch.randn(6, WIDTH), torch.arange(6)
    expected = pair_logits(state, left, right, offset)
    logits = head(left, right, offset, model.encoder.word_table)
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-4)


def test_the_converted_folder_loads_here_and_in_transformers(release: Path, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    out = tmp_path / "spanbert"
    done = run_spanlab("convert", str(release), "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["heads"] == ["mlm", "sbo"]
    theirs, report = hf.BertForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert {kind: names for kind, names in report.items() if names} == {}
    ours = load_model(out)
    assert set(ours.heads) == {"mlm", "sbo"}
    assert ours.encoder.pooler is not None
    ids = torch.randint(0, VOCAB, (2, 9))
    with torch.no_grad():
        logits = ours.head("mlm")(ours.encoder.eval()(ids).hidden, ours.encoder.word_table)
        torch.testing.assert_close(logits, theirs.eval()(ids).logits, rtol=1e-5, atol=1e-4)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pt"
    torch.save({"weights": torch.zeros(2)}, path)
    with pytest.raises(WeightsError, match=r"other.pt: no 'model' with decoder.bert"):
        read_spanbert_release(path)
    path.write_bytes(b"not a torch file")
    with pytest.raises(WeightsError, match=r"other\.pt"):
        read_spanbert_release(path)


def test_an_object_that_could_run_code_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    torch.save({"model": {}, "args": Path("x")}, path)
    with pytest.raises(WeightsError, match="never loaded"):
        read_spanbert_release(path)
