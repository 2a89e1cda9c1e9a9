"""ELECTRA: a small generator that proposes tokens, and a discriminator that detects which were replaced.

The two encoders share one set of embeddings (token, position, segment and their norm), as published; each has a
projection of its own to its width. The saved folder is the discriminator's, with the generator's in `generator/`.
"""

from dataclasses import replace
from pathlib import Path
from typing import cast

from torch import nn

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.heads import MaskedLMHead, ReplacedTokenHead
from spanlab.encoder.pretrained import load_model, save_model
from spanlab.encoder.pretrained.locate import locate_model
from spanlab.encoder.transformer import TransformerEncoder
from spanlab.errors import InputError


class Electra(nn.Module):
    """Generator and discriminator with their heads."""

    def __init__(
        self, generator: TransformerEncoder, discriminator: TransformerEncoder, *, share_embeddings: bool = True
    ) -> None:
        super().__init__()
        if share_embeddings:
            generator.embeddings = discriminator.embeddings
        self.share_embeddings = share_embeddings
        self.discriminator = discriminator
        self.generator = generator
        self.generator_head = MaskedLMHead(generator.config)
        self.discriminator_head = ReplacedTokenHead(discriminator.config)

    @classmethod
    def build(cls, config: EncoderConfig, *, generator_share: float = 0.25, share_embeddings: bool = True) -> "Electra":
        """New weights: a discriminator of the given shape and a generator `generator_share` as wide.

        Heads keep their width, so a generator a quarter as wide has a quarter of the heads.
        """
        width = max(config.head_width, round(config.width * generator_share / config.head_width) * config.head_width)
        generator = replace(
            config,
            width=width,
            heads=width // config.head_width,
            inner_width=max(1, config.inner_width * width // config.width),
            embedding_width=config.table_width,
        )
        return cls(TransformerEncoder(generator), TransformerEncoder(config), share_embeddings=share_embeddings)

    @classmethod
    def from_pretrained(cls, folder_or_id: str | Path) -> "Electra":
        """Both encoders and heads from a folder that holds the discriminator and `generator/`."""
        folder = locate_model(folder_or_id)
        if not (folder / "generator").is_dir():
            raise InputError(
                "no generator/ beside the discriminator", path=folder, fix="load it with Encoder.from_pretrained"
            )
        discriminator, generator = load_model(folder), load_model(folder / "generator")
        encoders = (generator.encoder, discriminator.encoder)
        if not all(isinstance(encoder, TransformerEncoder) for encoder in encoders):
            raise InputError("not an ELECTRA of SpanLab's own encoders", path=folder)
        generator_encoder, discriminator_encoder = cast("tuple[TransformerEncoder, TransformerEncoder]", encoders)
        tables = zip(
            discriminator_encoder.embeddings.parameters(), generator_encoder.embeddings.parameters(), strict=True
        )
        shared = all(left.equal(right) for left, right in tables)
        pair = cls(generator_encoder, discriminator_encoder, share_embeddings=shared)
        pair.generator_head.load_state_dict(generator.head("mlm").state_dict())
        pair.discriminator_head.load_state_dict(discriminator.head("rtd").state_dict())
        return pair

    def save_pretrained(self, folder: str | Path) -> None:
        """The discriminator's model folder, with the generator's inside it."""
        save_model(folder, self.discriminator, {"rtd": self.discriminator_head}, system="electra")
        save_model(Path(folder) / "generator", self.generator, {"mlm": self.generator_head}, system="electra")
