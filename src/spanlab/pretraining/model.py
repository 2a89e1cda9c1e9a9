"""The model a run begins with: new weights in the recipe's shape, or those of a model folder or hub id (`--init`)."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from spanlab.configuration import Source, from_mapping, to_mapping
from spanlab.encoder import Electra, Encoder, EncoderConfig, load_model, preset
from spanlab.encoder.vocabulary_transfer import transfer_vocabulary
from spanlab.encoder.weights import locate_model
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import Criterion, build_criterion
from spanlab.pretraining.recipe import Recipe
from spanlab.text import Tokenizer, check_model_case


@dataclass(frozen=True)
class Beginning:
    """What a run begins with."""

    criterion: Criterion
    config: EncoderConfig
    """Of the encoder; of ELECTRA, the discriminator."""
    notes: tuple[str, ...]
    """What a person should know: heads that are new, tokens that were added."""


def build_model(recipe: Recipe, tokenizer: Tokenizer, init: str | Path | None = None) -> Beginning:
    """The model with its objectives, the same for the same recipe, tokenizer and `init` wherever it is built."""
    torch.manual_seed(recipe.seed)
    if init is None:
        config = encoder_config(recipe, tokenizer)
        model: Encoder | Electra = (
            Electra.build(
                config,
                generator_share=recipe.generator.width_share,
                share_embeddings=recipe.generator.share_embeddings,
            )
            if recipe.weighs("rtd")
            else Encoder(config)
        )
        return Beginning(_criterion(model, recipe, {}), config, ())
    return _continue(recipe, tokenizer, init)


def encoder_config(recipe: Recipe, tokenizer: Tokenizer) -> EncoderConfig:
    """The shape of a new encoder: the body's at its size, fitted to the data, with the recipe's own changes."""
    base = preset(recipe.body or recipe.system, recipe.size, vocab_size=tokenizer.vocab_size)
    fitted = {
        "max_positions": recipe.data.longest,
        "pooler": recipe.weighs("nsp") or recipe.weighs("sop"),  # nothing else trains it
        "pad_id": tokenizer.pad_id,
    }
    if base.position_offset and tokenizer.pad_id is not None:
        fitted["position_offset"] = tokenizer.pad_id + 1
    mapping = {**to_mapping(base), **fitted, **recipe.encoder}
    try:
        config = from_mapping(EncoderConfig, mapping, Source())
    except ConfigError as error:
        raise ConfigError(f"in the 'encoder' section: {error.cause}", fix=error.fix) from None
    if config.vocab_size < tokenizer.vocab_size:
        cause = (
            f"encoder.vocab_size is {config.vocab_size}, and the corpus's tokenizer has {tokenizer.vocab_size} tokens"
        )
        raise ConfigError(cause, fix="leave encoder.vocab_size out: it follows the tokenizer")
    check_length(config, recipe.data.longest)
    return config


def check_length(config: EncoderConfig, length: int) -> None:
    """Refuse samples that are longer than the model can read."""
    if length > config.max_positions and config.positions == "learned":
        cause = f"samples of {length} tokens are longer than the model's {config.max_positions} positions"
        raise ConfigError(cause, fix=f"set data.length={config.max_positions}")


def _continue(recipe: Recipe, tokenizer: Tokenizer, init: str | Path) -> Beginning:
    folder = locate_model(init)
    if recipe.weighs("rtd"):
        pair = Electra.from_pretrained(folder)
        notes = _fit_vocabulary(recipe, tokenizer, folder, pair.discriminator, {})
        check_length(pair.discriminator.config, recipe.data.longest)
        return Beginning(_criterion(pair, recipe, {}), pair.discriminator.config, notes)
    model = load_model(folder)
    check_length(model.encoder.config, recipe.data.longest)
    heads = {name: head for name, head in model.heads.items() if recipe.weighs(name)}
    notes = _fit_vocabulary(recipe, tokenizer, folder, model.encoder, heads)
    new = [name for name, weight in recipe.objectives.items() if weight and name not in heads]
    if new:
        notes = (*notes, f"new heads, which the model did not have: {', '.join(new)}")
    if (recipe.weighs("nsp") or recipe.weighs("sop")) and model.encoder.config.pooler is False:
        raise ConfigError(f"{init} has no pooler, which nsp and sop are asked of", fix="set objectives.nsp=0, or sop=0")
    return Beginning(_criterion(model.encoder, recipe, heads), model.encoder.config, notes)


def _fit_vocabulary(
    recipe: Recipe, tokenizer: Tokenizer, folder: Path, encoder: Encoder, heads: dict[str, nn.Module]
) -> tuple[str, ...]:
    """Give the model the vocabulary of the corpus, if that was asked for; else refuse another one than its own."""
    try:
        own = Tokenizer.load(folder)
    except InputError:
        raise InputError("no tokenizer beside the model", path=folder, fix="put its tokenizer files there") from None
    check_model_case(folder, tokenizer, "of the corpus")
    if own.fingerprint == tokenizer.fingerprint:
        return ()
    if not recipe.extend_vocabulary:
        if own.vocabulary == tokenizer.vocabulary:
            raise InputError(
                "the corpus was prepared with another tokenizer of the same vocabulary, which splits text otherwise",
                path=folder,
                fix=f"prepare it with --tokenizer {folder}",
            )
        fix = f"prepare the corpus with --tokenizer {folder}, or set extend_vocabulary=true"
        raise InputError("the corpus was prepared with another tokenizer than the model's", path=folder, fix=fix)
    transfer = transfer_vocabulary(encoder, heads, own, tokenizer)
    return (
        f"vocabulary: {transfer.kept:,} tokens kept, {transfer.new:,} new ones begin as the mean of their old pieces",
    )


def _criterion(model: Encoder | Electra, recipe: Recipe, heads: dict[str, nn.Module]) -> Criterion:
    span_boundary = None if "sbo" in heads else recipe.span_boundary
    return build_criterion(model, recipe.objectives, heads=heads, span_boundary=span_boundary)
