"""ELECTRA's two encoders: shared embeddings, widths, and the folder with the generator inside."""

from pathlib import Path

import pytest
import torch

from spanlab.encoder import Electra, Encoder, load_model, preset
from spanlab.errors import InputError


def small(**changes: object) -> Electra:
    return Electra.build(preset("electra", "mini", vocab_size=53, layers=2), **changes)  # type: ignore[arg-type]


def test_the_generator_is_a_quarter_as_wide_on_the_same_embeddings() -> None:
    pair = small()
    assert (pair.generator.config.width, pair.generator.config.heads, pair.generator.config.inner_width) == (64, 1, 256)
    assert pair.generator.embeddings is pair.discriminator.embeddings
    assert pair.generator.projection is not None
    assert pair.discriminator.projection is None
    ids = torch.randint(0, 53, (2, 6))
    pair.generator_head(pair.generator(ids).hidden.flatten(0, 1), pair.generator.word_table).sum().backward()
    from_generator = pair.discriminator.word_table.grad
    assert from_generator is not None
    assert from_generator.abs().sum() > 0


def test_embeddings_can_be_kept_apart() -> None:
    pair = small(share_embeddings=False)
    assert pair.generator.embeddings is not pair.discriminator.embeddings


@pytest.mark.parametrize("share", [True, False])
def test_saves_and_loads(share: bool, tmp_path: Path) -> None:
    pair = small(share_embeddings=share)
    pair.save_pretrained(tmp_path)
    again = Electra.from_pretrained(tmp_path)
    assert again.share_embeddings is share
    for name, tensor in pair.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    assert set(load_model(tmp_path).heads) == {"rtd"}
    assert set(load_model(tmp_path / "generator").heads) == {"mlm"}


def test_transformers_reads_both(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    small().save_pretrained(tmp_path)
    for class_name, folder in (("ElectraForPreTraining", tmp_path), ("ElectraForMaskedLM", tmp_path / "generator")):
        _, report = getattr(hf, class_name).from_pretrained(folder, output_loading_info=True)
        assert {kind: names for kind, names in report.items() if names} == {}


def test_a_discriminator_alone_is_an_encoder_but_no_pair(tmp_path: Path) -> None:
    pair = small()
    pair.discriminator.save_pretrained(tmp_path)
    assert Encoder.from_pretrained(tmp_path).config.architecture == "electra"
    with pytest.raises(InputError, match="no generator/"):
        Electra.from_pretrained(tmp_path)
