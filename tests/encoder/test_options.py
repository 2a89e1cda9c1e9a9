"""Options beyond the originals: each does what it says, and saves and loads with the encoder."""

from pathlib import Path

import pytest
import torch

from spanlab.encoder import Encoder, MaskedLMHead, SpanBoundaryHead, TransformerEncoder, load_model, preset, save_model

OPTIONS = {
    "rotary": {"positions": "rotary"},
    "pre-norm": {"norm_place": "pre", "final_norm": True},
    "rms": {"norm": "rms"},
    "glu": {"feed_forward": "glu"},
    "sinusoidal": {"positions": "sinusoidal"},
    "all": {
        "positions": "rotary",
        "norm_place": "pre",
        "final_norm": True,
        "norm": "rms",
        "feed_forward": "glu",
        "activation": "silu",
        "layer_groups": 1,
        "embedding_width": 32,
    },
}
DRY = {"dropout": 0.0, "attention_dropout": 0.0, "vocab_size": 41}


@pytest.mark.parametrize("name", OPTIONS)
def test_saves_and_loads_with_its_heads(name: str, tmp_path: Path) -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", **DRY, **OPTIONS[name])).eval()
    heads = {
        "mlm": MaskedLMHead(encoder.config),
        "sbo": SpanBoundaryHead(128, 41, table_width=encoder.config.table_width),
    }
    save_model(tmp_path, encoder, heads, system="spanbert")
    again = load_model(tmp_path)
    assert again.encoder.config == encoder.config
    assert set(again.heads) == {"mlm", "sbo"}
    for part, module in heads.items():
        for key, tensor in module.state_dict().items():
            assert torch.equal(tensor, again.heads[part].state_dict()[key])
    ids = torch.randint(0, 41, (2, 7))
    with torch.no_grad():
        assert torch.equal(again.encoder.eval()(ids).hidden, encoder(ids).hidden)


def test_rotary_attention_depends_on_distance_alone() -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", positions="rotary", **DRY)).eval()
    ids = torch.randint(0, 41, (1, 9))
    with torch.no_grad():
        here = encoder(ids, position_ids=torch.arange(9)[None]).hidden
        moved = encoder(ids, position_ids=torch.arange(100, 109)[None]).hidden
        reversed_order = encoder(ids, position_ids=torch.arange(8, -1, -1)[None]).hidden
    torch.testing.assert_close(moved, here, rtol=0.0, atol=1e-4)
    assert not torch.allclose(reversed_order, here, atol=1e-3)


def test_recomputing_layers_changes_no_gradient() -> None:
    gradients = []
    for recompute in (False, True):
        torch.manual_seed(5)
        encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=41, checkpoint_layers=recompute))
        torch.manual_seed(6)  # dropout is on: the recomputed layers must draw the same masks
        encoder(torch.arange(40).view(4, 10)).hidden.square().mean().backward()
        gradients.append([p.grad for p in encoder.parameters() if p.grad is not None])
    for kept, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(recomputed, kept)


def test_stochastic_depth_skips_whole_sequences_in_training_only() -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", stochastic_depth=0.5, norm_place="pre", layers=1, **DRY))
    ids = torch.randint(0, 41, (400, 3))
    states = encoder(ids, output_hidden_states=True).hidden_states
    assert states is not None
    skipped = (states[0] == states[1]).all(dim=-1)
    assert torch.equal(skipped.any(dim=1), skipped.all(dim=1))
    assert 0.4 < skipped[:, 0].float().mean() < 0.6
    encoder.eval()
    assert torch.equal(encoder(ids).hidden, encoder(ids).hidden)


def test_training_settings_survive_the_folder(tmp_path: Path) -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", stochastic_depth=0.2, checkpoint_layers=True, **DRY))
    encoder.save_pretrained(tmp_path)
    assert Encoder.from_pretrained(tmp_path).config == encoder.config


def test_a_causal_encoder_pools_the_last_token_which_has_seen_the_others() -> None:
    config = preset("gpt", "tiny", vocab_size=41, layers=1, pooler=True).without_dropout()
    encoder = TransformerEncoder(config).eval()
    ids, lengths = torch.randint(5, 41, (11,)), torch.tensor([4, 7])
    with torch.no_grad():
        output = encoder(ids, lengths=lengths)
        expected = torch.tanh(output.hidden[[3, 10]] @ encoder.pooler.weight.T + encoder.pooler.bias)
    torch.testing.assert_close(output.pooled, expected)
