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
]


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt() * weight + bias


@pytest.mark.parametrize("options", OPTIONS)
def test_computes_what_its_options_say(options: dict[str, Any]) -> None:
    head = SpanBoundaryHead(WIDTH, VOCAB, **options).double()
    left, right, table = (torch.randn(n, WIDTH, dtype=torch.float64) for n in (6, 6, VOCAB))
    offset = torch.tensor([0, 1, 2, 14, 3, 0])
    x = torch.cat([left, right], dim=-1) if options.get("combine") != "sum" else left + right
    if options.get("max_span", 20) is not None:
        assert head.position is not None
        x = torch.cat([x, head.position.weight[offset]], dim=-1)
    else:
        assert head.position is None
    act = torch.relu if options.get("activation") == "relu" else torch.nn.functional.gelu
    x = norm(act(x @ head.dense_in.weight.T + head.dense_in.bias), head.norm_in.weight, head.norm_in.bias)
    x = norm(act(x @ head.dense_out.weight.T + head.dense_out.bias), head.norm_out.weight, head.norm_out.bias)
    torch.testing.assert_close(head(left, right, offset, table), x @ table.T + head.bias, rtol=1e-10, atol=1e-10)


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


@pytest.mark.parametrize(
    "options", [{"boundaries": "outer"}, {"combine": "add"}, {"activation": "tanh"}, {"max_span": 0}]
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"'{next(iter(options))}' is"):
        SpanBoundaryHead(WIDTH, VOCAB, **options)
