import pytest
from torch import nn

from spanlab.encoder import EncoderConfig, MaskedLMHead, SpanBoundaryHead, TransformerEncoder
from spanlab.encoder.discriminator import Electra
from spanlab.errors import ConfigError
from spanlab.objectives import MaskedLM, Mixture, Objective, SpanBoundary
from spanlab.training.config import TrainingConfig
from spanlab.training.optim import parameter_groups

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
