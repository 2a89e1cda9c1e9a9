"""AdamW and BERT's Adam against loops that spell them out; parameter groups."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spanlab.encoder import EncoderConfig, MaskedLMHead, SpanBoundaryHead, TransformerEncoder
from spanlab.encoder.discriminator import Electra
from spanlab.errors import ConfigError
from spanlab.objectives import MaskedLM, Mixture, Objective, SpanBoundary
from spanlab.training.config import TrainingConfig
from spanlab.training.optim import build_optimiser, parameter_groups, set_learning_rate
from tests.training.by_hand import assert_same_weights, by_hand, give_gradients, small_model, train

OPTIMISERS = [{"optimiser": "adamw"}, {"optimiser": "adamw", "bias_correction": False}, {"optimiser": "lamb"}]


def test_adamw_is_torchs() -> None:
    ours, theirs = small_model(), small_model()
    train(ours, TrainingConfig(steps=9, lr=0.1, weight_decay=0.2, betas=(0.8, 0.95), eps=1e-3), 9)
    matrices = [weight for weight in theirs.parameters() if weight.ndim > 1]
    vectors = [weight for weight in theirs.parameters() if weight.ndim == 1]
    reference = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.2}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.8, 0.95),
        eps=1e-3,
        foreach=False,
    )
    for step in range(9):
        for group in reference.param_groups:
            group["lr"] = 0.1 / (step + 1)
        give_gradients(theirs, step)
        reference.step()
    assert_same_weights(ours, theirs, rtol=1e-12, atol=1e-14)


def test_bert_s_adam_does_not_correct_its_moments() -> None:
    ours, theirs = small_model(), small_model()
    config = TrainingConfig(steps=9, lr=0.1, weight_decay=0.2, eps=1e-6, bias_correction=False)
    train(ours, config, 9)

    def rule(weight: Tensor, state: dict[str, Any], step: int, is_matrix: bool) -> Tensor:
        assert weight.grad is not None
        state["m"] = 0.9 * state["m"] + 0.1 * weight.grad
        state["v"] = 0.999 * state["v"] + 0.001 * weight.grad**2
        update = state["m"] / (state["v"].sqrt() + 1e-6) + (0.2 * weight if is_matrix else 0.0)
        scaled: Tensor = 0.1 / (step + 1) * update
        return scaled

    by_hand(theirs, 9, rule)
    assert_same_weights(ours, theirs, rtol=1e-12, atol=1e-14)


def test_without_correction_the_first_update_is_larger_by_the_root_of_the_moments_shares() -> None:
    sizes = []
    for bias_correction in (True, False):
        model = small_model()
        before = model[0].weight.detach().clone()  # type: ignore[index]
        train(model, TrainingConfig(steps=1, lr=1e-3, weight_decay=0, bias_correction=bias_correction), 1)
        sizes.append((model[0].weight - before).norm().item())  # type: ignore[index]
    assert sizes[1] / sizes[0] == pytest.approx(0.1 / math.sqrt(0.001), rel=1e-4)


@pytest.mark.parametrize("options", OPTIMISERS, ids=str)
def test_saved_state_goes_on_to_the_bit(options: dict[str, Any]) -> None:
    config = TrainingConfig(steps=8, lr=0.1, **options)
    whole, stopped = small_model(torch.float32), small_model(torch.float32)
    first = train(stopped, config, 5)
    train(whole, config, 8)
    saved = {weight: {key: value.clone() for key, value in first.state[weight].items()} for weight in first.state}
    assert all(set(state) == {"step", "exp_avg", "exp_avg_sq"} for state in saved.values())
    assert all(isinstance(value, Tensor) for state in saved.values() for value in state.values())
    resumed = build_optimiser(stopped, config)
    for weight, state in saved.items():
        resumed.state[weight] = state
    for step in range(5, 8):
        set_learning_rate(resumed, config.lr / (step + 1))
        give_gradients(stopped, step)
        resumed.step()
    assert all(ours.equal(theirs) for ours, theirs in zip(stopped.parameters(), whole.parameters(), strict=True))


@pytest.mark.parametrize("options", OPTIMISERS, ids=str)
def test_groups_have_their_own_rate_and_weights_without_a_gradient_stay(options: dict[str, Any]) -> None:
    model = small_model()
    config = TrainingConfig(steps=1, lr=0.1, lr_factors={"0": 0.0, "1": 3.0}, **options)
    optimiser = build_optimiser(model, config)
    assert sorted({group["lr"] for group in optimiser.param_groups}) == pytest.approx([0.0, 0.1, 0.3])
    set_learning_rate(optimiser, 0.2)
    assert sorted({group["lr"] for group in optimiser.param_groups}) == pytest.approx([0.0, 0.2, 0.6])
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    give_gradients(model, 0)
    model[2].bias.grad = None  # type: ignore[index]
    optimiser.step()
    unmoved = {name for name, weight in model.named_parameters() if weight.equal(before[name])}
    assert unmoved == {"0.weight", "0.bias", "2.bias"}


@pytest.mark.parametrize("options", OPTIMISERS, ids=str)
def test_a_quadratic_is_solved(options: dict[str, Any]) -> None:
    model = nn.Linear(4, 4, bias=False)
    goal = torch.randn(4, 4)
    config = TrainingConfig(steps=300, lr=0.05, weight_decay=0.0, **options)
    optimiser = build_optimiser(model, config)
    for step in range(300):
        optimiser.zero_grad()
        set_learning_rate(optimiser, config.lr * (1 - step / 300))
        (model.weight - goal).square().sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    torch.testing.assert_close(model.weight, goal, rtol=0, atol=0.02)


TINY = EncoderConfig(vocab_size=30, width=64, layers=3, heads=1, inner_width=64, embedding_width=32, final_norm=True)


def mixture() -> Mixture:
    objectives: list[Objective] = [MaskedLM(MaskedLMHead(TINY)), SpanBoundary(SpanBoundaryHead(64, 30, table_width=32))]
    return Mixture(TransformerEncoder(TINY), objectives, {"mlm": 1.0, "sbo": 1.0})


def by_name(module: nn.Module, config: TrainingConfig, key: str) -> dict[str, float]:
    return {name: group[key] for group in parameter_groups(module, config) for name in group["names"]}


def test_every_trainable_parameter_is_in_one_group_and_beside_its_name() -> None:
    model = mixture()
    model.encoder.embeddings.position.weight.requires_grad_(False)  # type: ignore[union-attr]
    groups = parameter_groups(model, TrainingConfig(steps=1, layer_decay=0.9))
    grouped = [(name, id(p)) for group in groups for name, p in zip(group["names"], group["params"], strict=True)]
    trainable = {(name, id(p)) for name, p in model.named_parameters() if p.requires_grad}
    assert len(grouped) == len(trainable)
    assert set(grouped) == trainable
    assert len({(group["lr_factor"], group["norm_or_bias"]) for group in groups}) == len(groups)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_norms_and_biases_do_not_decay_unless_told(norm: str) -> None:
    model = TransformerEncoder(EncoderConfig(vocab_size=30, width=64, layers=2, heads=1, inner_width=64, norm=norm))  # type: ignore[arg-type]
    decay = by_name(model, TrainingConfig(steps=1, weight_decay=0.3), "weight_decay")
    for name, value in decay.items():
        assert value == (0.0 if "norm" in name or name.endswith("bias") else 0.3), name
    assert decay["embeddings.word.weight"] == 0.3
    everywhere = TrainingConfig(steps=1, weight_decay=0.3, decay_norms_and_biases=True)
    assert set(by_name(model, everywhere, "weight_decay").values()) == {0.3}
    assert by_name(model, everywhere, "norm_or_bias") == {name: value == 0.0 for name, value in decay.items()}


def test_norms_over_two_axes_and_biases_of_heads_do_not_decay() -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.LayerNorm((2, 3))
            self.query_bias = nn.Parameter(nn.Linear(2, 3).weight.detach())
            self.gamma = nn.Parameter(nn.Linear(1, 1).weight.detach()[0, 0])
            self.matrix = nn.Linear(2, 3, bias=False)

    assert by_name(Part(), TrainingConfig(steps=1), "weight_decay") == {
        "scale.weight": 0.0,
        "scale.bias": 0.0,
        "query_bias": 0.0,
        "gamma": 0.0,
        "matrix.weight": 0.01,
    }


def test_layers_learn_more_slowly_the_lower_they_are() -> None:
    factors = by_name(mixture(), TrainingConfig(steps=1, layer_decay=0.5), "lr_factor")
    assert len(factors) > 50
    for name, factor in factors.items():
        if name.startswith(("encoder.embeddings.", "encoder.projection.")):
            expected = 0.5**4
        elif name.startswith("encoder.layers."):
            expected = 0.5 ** (3 - int(name.split(".")[2]))
        else:  # the heads (with the span boundary head's own table of positions), the pooler and the final norm
            expected = 1.0
        assert factor == expected, name


def test_two_stacks_below_a_wrapper_have_a_depth_each_and_share_their_embeddings() -> None:
    discriminator = EncoderConfig(vocab_size=30, width=64, layers=4, heads=1, inner_width=64, embedding_width=32)
    pair = nn.ModuleDict({"pair": Electra(TransformerEncoder(TINY), TransformerEncoder(discriminator))})
    factors = by_name(pair, TrainingConfig(steps=1, layer_decay=0.5), "lr_factor")
    assert factors["pair.discriminator.embeddings.word.weight"] == 0.5**5
    assert factors["pair.discriminator.layers.3.0.attention.qkv.weight"] == 0.5
    assert factors["pair.generator.layers.2.0.attention.qkv.weight"] == 0.5
    assert factors["pair.generator.projection.weight"] == 0.5**4
    assert factors["pair.generator_head.dense.weight"] == 1.0
    assert not any(name.startswith("pair.generator.embeddings") for name in factors)


def test_an_encoder_of_transformers_has_the_same_depths() -> None:
    transformers = pytest.importorskip("transformers")
    from spanlab.encoder.transformers_encoder import TransformersEncoder

    theirs = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=1, intermediate_size=8
    )
    model = nn.ModuleDict({"encoder": TransformersEncoder(transformers.BertModel(theirs))})
    factors = by_name(model, TrainingConfig(steps=1, layer_decay=0.5), "lr_factor")
    assert factors["encoder.model.embeddings.word_embeddings.weight"] == 0.5**3
    assert factors["encoder.model.encoder.layer.0.attention.self.query.weight"] == 0.5**2
    assert factors["encoder.model.encoder.layer.1.attention.self.query.weight"] == 0.5
    assert factors["encoder.model.pooler.dense.weight"] == 1.0


def test_the_longest_prefix_decides_and_multiplies_the_layer_decay() -> None:
    chosen = {"objectives": 10.0, "objectives.sbo.head.bias": 3.0, "encoder.layers.1": 4.0}
    factors = by_name(mixture(), TrainingConfig(steps=1, layer_decay=0.5, lr_factors=chosen), "lr_factor")
    assert factors["objectives.mlm.head.dense.weight"] == 10.0
    assert factors["objectives.sbo.head.bias"] == 3.0
    assert factors["encoder.layers.1.0.attention.qkv.weight"] == 0.25 * 4.0
    assert factors["encoder.layers.2.0.attention.qkv.weight"] == 0.5


def test_a_prefix_ends_where_a_part_of_the_name_ends() -> None:
    deep = nn.ModuleDict({"layers": nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(12))})
    factors = by_name(deep, TrainingConfig(steps=1, lr_factors={"layers.1": 2.0}), "lr_factor")
    assert {name for name, factor in factors.items() if factor == 2.0} == {"layers.1.weight"}


def test_a_prefix_without_a_parameter_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'objectves'.*did you mean 'objectives'.*start with encoder, objectives"):
        parameter_groups(mixture(), TrainingConfig(steps=1, lr_factors={"objectves": 10.0}))
    with pytest.raises(ConfigError, match="'enc'"):
        parameter_groups(mixture(), TrainingConfig(steps=1, lr_factors={"enc": 10.0}))
