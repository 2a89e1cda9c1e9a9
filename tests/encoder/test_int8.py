"""Linear layers in 8 bits: how close they are, that nothing overflows, that a token is computed for itself."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from spanlab.encoder import ElmoConfig, Encoder, build_encoder, preset
from spanlab.encoder.int8 import Int8Linear, int8_copy, weight_levels
from spanlab.encoder.int8 import _rows as filled_rows
from spanlab.errors import ConfigError
from tests.inference.models import shake

SYSTEMS = ("bert", "roberta", "albert", "electra", "modernbert", "gpt", "xlnet")


def random_layer(width: int = 96, out: int = 64, *, levels: int | None = None) -> tuple[nn.Linear, Int8Linear]:
    torch.manual_seed(0)
    exact = nn.Linear(width, out)
    with torch.no_grad():
        return exact, Int8Linear(exact.weight, exact.bias, levels=levels or weight_levels())


def relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found - exact).norm() / exact.norm())


@pytest.mark.parametrize("count", [1, 2, 17, 1023, 1024, 1025, 2500])
@torch.no_grad()
def test_a_layer_is_close_to_the_exact_one_at_any_number_of_tokens(count: int) -> None:
    exact, layer = random_layer()
    x_ND = torch.randn(count, 96) + torch.linspace(-3, 3, count)[:, None]
    assert relative(layer(x_ND), exact(x_ND)) < 0.015
    residual_NO = torch.randn(count, 64)
    assert torch.allclose(layer.add_to(residual_NO, x_ND), residual_NO + layer(x_ND), atol=1e-5)
    assert layer(x_ND.view(count, 1, 96)).shape == (count, 1, 64)


@torch.no_grad()
def test_an_outlier_costs_its_own_token_alone() -> None:
    exact, layer = random_layer()
    x_ND = torch.randn(40, 96)
    alone = layer(x_ND[:1])
    x_ND[1:] *= 1000.0
    assert torch.allclose(layer(x_ND)[:1], alone, atol=1e-5)
    assert relative(alone, exact(x_ND[:1])) < 0.015


@torch.no_grad()
def test_an_empty_batch_and_constant_tokens() -> None:
    exact, layer = random_layer()
    assert layer(torch.zeros(0, 96)).shape == (0, 64)
    constant = torch.full((3, 96), 2.5)
    rounding = 0.02 * 127 / weight_levels()  # with fewer levels, each is coarser
    assert torch.allclose(layer(constant), exact(constant), atol=rounding)
    assert torch.allclose(layer(torch.zeros(3, 96)), exact.bias.expand(3, 64), atol=1e-5)


@torch.no_grad()
def test_a_token_that_is_not_finite_stays_so() -> None:
    _, layer = random_layer()
    x_ND = torch.randn(4, 96)
    x_ND[0, 5], x_ND[2, 7] = torch.nan, torch.inf
    finite_N = layer(x_ND).isfinite().all(dim=1)
    assert finite_N.tolist() == [False, True, False, True]


SATURATION = """
import torch
from spanlab.encoder.int8 import Int8Linear, _LEVELS, _REDUCED_LEVELS
from spanlab.machine import int8_instructions
levels = _LEVELS if int8_instructions() is not None else _REDUCED_LEVELS
weight = torch.ones(64, 256)
weight[::2] = -1.0
x = torch.ones(40, 256)
x[:, 0] = 0.0
with torch.no_grad():
    found = Int8Linear(weight, None, levels=levels)(x)
assert torch.allclose(found, x @ weight.t(), rtol=1e-4), (levels, found[0, :2])
"""


@pytest.mark.parametrize("isa", [None, "AVX2", "AVX512_CORE"])
def test_the_largest_products_do_not_overflow_whatever_instructions_there_are(isa: str | None) -> None:
    environment = os.environ if isa is None else {**os.environ, "ONEDNN_MAX_CPU_ISA": isa}
    outcome = subprocess.run(
        [sys.executable, "-c", SATURATION], env=environment, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr


def test_rows_are_filled_up_to_few_different_numbers() -> None:
    filled = [filled_rows(count) for count in range(1, 1025)]
    assert all(count <= rows <= max(count + 1, count * 1.125) for count, rows in enumerate(filled, start=1))
    assert len(set(filled)) < 60


def small_encoder(system: str) -> Encoder:
    torch.manual_seed(0)
    encoder = build_encoder(preset(system, "tiny", vocab_size=100))  # type: ignore[arg-type]
    shake(encoder)
    return encoder.eval()


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_every_transformer_computes_in_8_bits_and_shares_the_rest(system: str) -> None:
    encoder = small_encoder(system)
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    copied = int8_copy(encoder)
    ids_N, lengths_B = torch.randint(5, 100, (50,)), torch.tensor([20, 3, 27])
    exact = encoder(ids_N, lengths=lengths_B).hidden
    difference = relative(copied(ids_N, lengths=lengths_B).hidden, exact)
    assert 0.0 < difference < 0.1
    assert any(isinstance(module, Int8Linear) for module in copied.modules())
    assert not any(isinstance(module, Int8Linear) for module in encoder.modules())
    assert copied.word_table.data_ptr() == encoder.word_table.data_ptr()
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())
    if encoder.pooler is not None:
        assert not any(isinstance(module, Int8Linear) for module in copied.pooler.modules())  # type: ignore[union-attr]


@torch.no_grad()
def test_threads_share_a_copy() -> None:
    copied = int8_copy(small_encoder("bert"))
    batches = [torch.randint(5, 100, (length,)) for length in range(3, 43)]

    def encode(ids_N: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return copied(ids_N, lengths=torch.tensor([len(ids_N)])).hidden  # type: ignore[no-any-return]

    wanted = [encode(ids_N) for ids_N in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(encode, batches * 5))
    assert all(torch.equal(one, other) for one, other in zip(found, wanted * 5, strict=True))


def test_an_encoder_that_cannot_says_so() -> None:
    config = ElmoConfig(vocab_size=100, filters=((1, 8),), cells=16, projection=8)
    with pytest.raises(ConfigError, match="int8 is for SpanLab's own Transformers"):
        int8_copy(build_encoder(config))
