"""The span boundary head's options: what each computes, and that a model folder keeps them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from spanlab.encoder import (
    SpanBoundaryConfig,
    SpanBoundaryHead,
    TransformerEncoder,
    load_model,
    preset,
    save_model,
)
from spanlab.errors import ConfigError

WIDTH, VOCAB = 128, 29
OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_span": 15, "position_width": 7},
    {"combine": "sum"},
    {"combine": "sum", "position_width": WIDTH},
    {"boundaries": "internal", "activation": "relu", "max_span": None},
    {"boundaries": "internal", "combine": "sum", "max_span": None},
    # softmax(W2 ReLU(W1 [h_start; h_end])): from its own ends, without a position, two matrices and nothing else
    {
        "boundaries": "internal",
        "positions": False,
        "activation": "relu",
        "layers": 1,
        "norm": False,
        "bias": False,
        "tie": False,
    },
    {"combine": "sum-all"},
    {"combine": "sum-all", "positions": False},
    {"inner_width": 200},
    {"layers": 1},
    {"layers": 1, "tie": False, "inner_width": 90},
    {"layers": 2, "tie": False, "inner_width": 90, "norm": False},
    {"bias": False},
]


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt() * weight + bias


def has_positions(options: dict[str, Any]) -> bool:
    return bool(options.get("positions", True)) and options.get("max_span", 20) is not None


@pytest.mark.parametrize("options", OPTIONS)
def test_computes_what_its_options_say(options: dict[str, Any]) -> None:
    head = SpanBoundaryHead(WIDTH, VOCAB, **options).double()
    if head.bias is not None:
        torch.nn.init.normal_(head.bias)
    left, right, table = (torch.randn(n, WIDTH, dtype=torch.float64) for n in (6, 6, VOCAB))
    offset = torch.tensor([0, 1, 2, 14, 3, 0])
    combine = options.get("combine", "concat")
    x = torch.cat([left, right], dim=-1) if combine == "concat" else left + right
    assert (head.position is not None) == has_positions(options)
    if head.position is not None:
        position = head.position.weight[offset]
        x = x + position if combine == "sum-all" else torch.cat([x, position], dim=-1)
    for dense, layer_norm in ((head.dense_in, head.norm_in), (head.dense_out, head.norm_out)):
        if dense is None:
            assert options.get("layers") == 1
            continue
        assert (dense.bias is not None) == options.get("bias", True)
        x = x @ dense.weight.T + (0.0 if dense.bias is None else dense.bias)
        x = torch.relu(x) if options.get("activation") == "relu" else torch.nn.functional.gelu(x)
        assert (layer_norm is not None) == options.get("norm", True)
        x = x if layer_norm is None else norm(x, layer_norm.weight, layer_norm.bias)
    expected = x @ (table if options.get("tie", True) else head.decoder).T
    expected = expected if head.bias is None else expected + head.bias
    torch.testing.assert_close(head(left, right, offset, table), expected, rtol=1e-10, atol=1e-10)


def test_its_weights_are_those_that_its_options_ask_for() -> None:
    def shapes(**options: Any) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in SpanBoundaryHead(8, 29, **options).state_dict().items()}

    simple = {"boundaries": "internal", "positions": False, "activation": "relu", "layers": 1, "norm": False}
    assert shapes(**simple, bias=False, tie=False) == {"dense_in.weight": (8, 16), "decoder": (29, 8)}
    assert shapes(bias=False, norm=False, inner_width=12, position_width=3, max_span=5) == {
        "position.weight": (5, 3),
        "dense_in.weight": (12, 19),
        "dense_out.weight": (8, 12),
    }
    assert shapes(combine="sum-all", layers=1, max_span=5, table_width=6) == {
        "position.weight": (5, 8),
        "dense_in.weight": (6, 8),
        "dense_in.bias": (6,),
        "norm_in.weight": (6,),
        "norm_in.bias": (6,),
        "bias": (29,),
    }


@pytest.mark.parametrize("architecture", ["bert", "transformer"])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_model_folder_keeps_them(architecture: str, options: dict[str, Any], tmp_path: Path) -> None:
    encoder = TransformerEncoder(preset(architecture, "tiny", vocab_size=VOCAB, layers=1))
    head = SpanBoundaryHead(WIDTH, VOCAB, **options)
    save_model(tmp_path, encoder, {"sbo": head})
    again = load_model(tmp_path).head("sbo")
    assert isinstance(again, SpanBoundaryHead)
    assert again.config == SpanBoundaryConfig(**options) == head.config
    for name, tensor in head.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


@pytest.mark.parametrize("options", [{}, {"combine": "sum", "max_span": 15}, {"max_span": None}])
def test_a_folder_without_settings_is_read_off_its_shapes(options: dict[str, Any], tmp_path: Path) -> None:
    head = SpanBoundaryHead(WIDTH, VOCAB, **options)
    save_model(tmp_path, TransformerEncoder(preset("bert", "tiny", vocab_size=VOCAB, layers=1)), {"sbo": head})
    described = json.loads((tmp_path / "spanlab.json").read_text())
    described.pop("head_settings")
    (tmp_path / "spanlab.json").write_text(json.dumps(described))
    again = load_model(tmp_path).head("sbo")
    assert isinstance(again, SpanBoundaryHead)
    assert again.config == head.config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"boundaries": "extern"}, r"spanlab.json: 'boundaries' is 'extern' \(did you mean 'external'"),
        ({"boundary": "external"}, r"unknown key 'boundary' \(did you mean 'boundaries'"),
        ("external", "spanlab.json: 'head_settings.sbo' is 'external'; it must be a list or section"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: object, message: str, tmp_path: Path) -> None:
    heads = {"sbo": SpanBoundaryHead(WIDTH, VOCAB)}
    save_model(tmp_path, TransformerEncoder(preset("bert", "tiny", vocab_size=VOCAB, layers=1)), heads)
    described = json.loads((tmp_path / "spanlab.json").read_text())
    described["head_settings"] = {"sbo": settings}
    (tmp_path / "spanlab.json").write_text(json.dumps(described))
    with pytest.raises(ConfigError, match=message):
        load_model(tmp_path)


def test_a_hidden_width_without_a_layer_is_refused() -> None:
    with pytest.raises(ConfigError, match="inner_width has no layer"):
        SpanBoundaryHead(WIDTH, VOCAB, layers=1, inner_width=64)


@pytest.mark.parametrize(
    "options", [{"layers": 3}, {"boundaries": "outer"}, {"combine": "add"}, {"activation": "tanh"}, {"max_span": 0}]
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"'{next(iter(options))}' is"):
        SpanBoundaryHead(WIDTH, VOCAB, **options)
