"""The initial model of a run: a recipe and a tokenizer in, an encoder with its criterion out.

Weights are random, in the shape the recipe gives, or those of a model folder or hub id (`--init`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from spanlab.encoder import (
    BidirectionalLMHead,
    Electra,
    ElmoConfig,
    ElmoEncoder,
    Encoder,
    EncoderConfig,
    MaskedLMHead,
    PermutationLMHead,
    SpanBoundaryHead,
    build_encoder,
    load_model,
)
from spanlab.encoder.pretrained import locate_model
from spanlab.encoder.pretrained.vocabulary import transfer_vocabulary
from spanlab.encoder.transformers_encoder import TransformersEncoder
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import Criterion, build_criterion
from spanlab.pretraining.memory import check_memory
from spanlab.pretraining.methods import PAIR_BLOCKS
from spanlab.pretraining.new_encoder import change_config, check_length, memory_settings, new_encoder_config
from spanlab.pretraining.recipe import Recipe
from spanlab.text import Tokenizer, check_model_case

_SETTINGS = {"dropout", "attention_dropout", "stochastic_depth", "checkpoint_layers", "memory", "reuse"}
"""The encoder settings that may change with --init: no weight depends on them."""

_OF_NEW_WEIGHTS = {"init_std", "residual_init"}
"""The encoder settings that mean nothing with --init."""

TOKEN_HEADS = (MaskedLMHead, SpanBoundaryHead, PermutationLMHead, BidirectionalLMHead)
"""The heads with an output bias for every token."""

AnyEncoder = TypeVar("AnyEncoder", bound=Encoder)


@dataclass(frozen=True)
class InitialModel:
    """The model that a run starts from."""

    criterion: Criterion
    config: EncoderConfig
    """The config of the encoder; for ELECTRA, of the discriminator."""
    notes: tuple[str, ...]
    """Messages to the user: new heads, added tokens."""


def build_model(
    recipe: Recipe,
    tokenizer: Tokenizer,
    init: str | Path | None = None,
    *,
    token_shares: NDArray[np.float64] | None = None,
    word_vectors: NDArray[np.float32] | None = None,
) -> InitialModel:
    """The model with its objectives; deterministic in its arguments.

    `token_shares` (V,) are the shares of the tokens in the corpus, for `output_bias: unigram`; None: biases start at 0.
    `word_vectors` (V, E) have standard deviation 1 and replace the random embeddings of a new model; rows of zeros,
    those of tokens that the corpus lacks, replace nothing.
    """
    torch.manual_seed(recipe.seed)
    if init is None:
        model = _new_model(recipe, tokenizer)
        encoder = model.discriminator if isinstance(model, Electra) else model
        if word_vectors is not None:
            _set_word_embeddings(encoder, torch.from_numpy(word_vectors))
        config = encoder.config
        notes = (*_tokenizer_notes(config, tokenizer), *_segment_notes(recipe, config))
        initial = InitialModel(_criterion(model, recipe, {}), config, notes)
        trained: list[nn.Module] = []
    else:
        initial, trained = _continue(recipe, tokenizer, init)
        check_memory(recipe, initial.config)
    initial = replace(initial, notes=(*initial.notes, *_permutation_notes(recipe)))
    if token_shares is not None:
        _start_at_unigrams(initial.criterion, trained, token_shares)
    return initial


def _set_word_embeddings(encoder: Encoder, vectors_VE: torch.Tensor) -> None:
    """Give the tokens whose vectors are not zero these as embeddings, as large as the random ones are."""
    occurs_V = vectors_VE.any(dim=1)
    with torch.no_grad():
        encoder.word_table[: len(vectors_VE)][occurs_V] = encoder.config.init_std * vectors_VE[occurs_V]


def _start_at_unigrams(criterion: Criterion, trained: Sequence[nn.Module], token_shares: NDArray[np.float64]) -> None:
    """Set the output biases of the heads that are not `trained` already to the log of the tokens' shares."""
    assert isinstance(criterion, nn.Module)
    log_shares_V = torch.from_numpy(np.log(token_shares)).float()
    for head in criterion.modules():
        if isinstance(head, TOKEN_HEADS) and head.bias is not None and not any(head is other for other in trained):
            with torch.no_grad():
                head.bias.fill_(log_shares_V.min())  # ids beyond the tokenizer's
                head.bias[: len(log_shares_V)] = log_shares_V


def _tokenizer_notes(config: EncoderConfig, tokenizer: Tokenizer) -> tuple[str, ...]:
    """A note if the tokenizer is of another kind than the published system's; training works nevertheless."""
    if config.architecture == "xlnet" and tokenizer.system != "xlnet":
        note = f"the corpus has the special tokens of {tokenizer.system}, so the class token does not come last"
        return (f"{note}; for XLNet's, train a tokenizer with --system xlnet",)
    if config.architecture == "elmo" and tokenizer.kind != "word":
        return ("the corpus is tokenized into subwords, ELMo reads whole words; train a tokenizer with --type word",)
    return ()


def _permutation_notes(recipe: Recipe) -> tuple[str, ...]:
    """A note if the number of predicted tokens and their share disagree: the number counts."""
    law, length = recipe.masking.permutation, recipe.data.longest
    by_share = length * law.beta // law.alpha
    is_given = recipe.corruption == "permutation" and law.predictions is not None
    if not is_given or abs((law.predictions or 0) - by_share) <= 1:  # by rounding
        return ()
    note = f"{law.predictions} tokens of {length} are predicted, as masking.permutation.predictions says, and not"
    return (f"{note} {by_share}, as alpha={law.alpha} and beta={law.beta} would have it",)


def _segment_notes(recipe: Recipe, config: EncoderConfig) -> tuple[str, ...]:
    """A note if sentence pairs meet an encoder that has no embedding for their segments."""
    if recipe.data.blocks not in PAIR_BLOCKS.values() or config.segments > 1:
        return ()
    note = f"a {config.architecture} encoder has no segment embeddings: the separator alone tells the segments apart"
    return (f"{note}; encoder.segments=2 adds them",)


def _new_model(recipe: Recipe, tokenizer: Tokenizer) -> Encoder | Electra:
    config = new_encoder_config(recipe, vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id)
    check_memory(recipe, config)
    if isinstance(config, ElmoConfig):
        return ElmoEncoder(config, tokenizer.vocabulary)
    if not recipe.method.generator:
        return build_encoder(config)
    generator = recipe.generator
    return Electra.build(config, generator_share=generator.width_share, share_embeddings=generator.share_embeddings)


def _continue(recipe: Recipe, tokenizer: Tokenizer, init: str | Path) -> tuple[InitialModel, list[nn.Module]]:
    """The model of a folder with the recipe's objectives, and the heads that it brought."""
    folder = locate_model(init)
    if recipe.method.generator:
        return _continue_pair(recipe, tokenizer, folder)
    model = load_model(folder)
    encoder, notes = _with_settings(model.encoder, recipe)
    check_length(encoder.config, recipe.data.longest)
    if recipe.classifies_pairs and encoder.pooler is None:
        raise ConfigError(f"{init} has no pooler, which nsp and sop need", fix="set objectives.nsp=0 objectives.sop=0")
    heads = {name: head for name, head in model.heads.items() if name in recipe.active_objectives}
    notes += _fit_vocabulary(recipe, tokenizer, folder, encoder, heads)
    new = [name for name in recipe.active_objectives if name not in heads]
    if new:
        notes += (f"new heads, which the model did not have: {', '.join(new)}",)
    dropped = [name for name in model.heads if name not in heads]
    if dropped:
        notes += (f"heads that no objective trains are dropped: {', '.join(dropped)}",)
    return InitialModel(_criterion(encoder, recipe, heads), encoder.config, notes), list(heads.values())


def _continue_pair(recipe: Recipe, tokenizer: Tokenizer, folder: Path) -> tuple[InitialModel, list[nn.Module]]:
    """ELECTRA's generator and discriminator, with the same vocabulary."""
    loaded = Electra.from_pretrained(folder)
    discriminator, notes = _with_settings(loaded.discriminator, recipe)
    generator, _ = _with_settings(loaded.generator, recipe)
    pair = Electra(generator, discriminator, share_embeddings=loaded.share_embeddings)
    pair.load_state_dict(loaded.state_dict())
    check_length(discriminator.config, recipe.data.longest)
    heads: dict[str, nn.Module] = {"mlm": pair.generator_head}
    if pair.share_embeddings:
        notes += _fit_vocabulary(recipe, tokenizer, folder, discriminator, heads)
        size, pad_id = discriminator.config.vocab_size, discriminator.config.pad_id
        generator.config = replace(generator.config, vocab_size=size, pad_id=pad_id)
    else:
        notes += _fit_vocabulary(recipe, tokenizer, folder, discriminator, {})
        _fit_vocabulary(recipe, tokenizer, folder, generator, heads)
    return InitialModel(_criterion(pair, recipe, {}), discriminator.config, notes), [pair.generator_head]


def _with_settings(encoder: AnyEncoder, recipe: Recipe) -> tuple[AnyEncoder, tuple[str, ...]]:
    """The encoder with those settings of the recipe that no weight depends on; a note for each of the others."""
    config = encoder.full_config
    settings = recipe.encoder
    if encoder.config.positions == "relative":
        settings = {**memory_settings(recipe), **settings}
    requested = change_config(config, settings)
    differing = {name for name in settings if getattr(requested, name) != getattr(config, name)}
    changes = set() if isinstance(encoder, TransformersEncoder) else differing & _SETTINGS
    notes = tuple(
        f"encoder.{name} stays {getattr(config, name)}, as the model has it"
        for name in settings
        if name in differing - changes - _OF_NEW_WEIGHTS
    )
    if not changes:
        return encoder, notes
    changed = type(encoder).from_config(replace(config, **{name: getattr(requested, name) for name in changes}))
    changed.load_state_dict(encoder.state_dict())
    return changed, notes


def _fit_vocabulary(
    recipe: Recipe, tokenizer: Tokenizer, folder: Path, encoder: Encoder, heads: dict[str, nn.Module]
) -> tuple[str, ...]:
    """Refuse another tokenizer than the model's or, with `extend_vocabulary`, give the model its vocabulary."""
    try:
        model_tokenizer = Tokenizer.load(folder)
    except InputError:
        raise InputError(
            "no tokenizer in the model folder", path=folder, fix="copy its tokenizer files there"
        ) from None
    check_model_case(folder, tokenizer, "of the corpus")
    if model_tokenizer.fingerprint == tokenizer.fingerprint:
        return ()
    if not recipe.extend_vocabulary:
        if model_tokenizer.vocabulary == tokenizer.vocabulary:
            raise InputError(
                "the corpus was prepared with a tokenizer of the same vocabulary that splits text differently",
                path=folder,
                fix=f"prepare it with --tokenizer {folder}",
            )
        fix = f"prepare the corpus with --tokenizer {folder}, or set extend_vocabulary=true"
        raise InputError("the corpus was prepared with another tokenizer than the model's", path=folder, fix=fix)
    if isinstance(encoder, ElmoEncoder):
        raise ConfigError("the vocabulary of an ELMo cannot be extended", fix="set extend_vocabulary=false")
    transfer = transfer_vocabulary(encoder, heads, model_tokenizer, tokenizer)
    return (
        f"vocabulary: {transfer.kept:,} tokens kept, {transfer.new:,} new ones start as the mean of their old pieces",
    )


def _criterion(model: Encoder | Electra, recipe: Recipe, heads: dict[str, nn.Module]) -> Criterion:
    if isinstance(model, Encoder) and model.pooler is not None and not recipe.classifies_pairs:
        model.pooler.requires_grad_(False)  # DDP waits for the gradient of every trainable parameter
    span_boundary = None if "sbo" in heads else recipe.span_boundary
    collapsed = recipe.corruption == "masks" and recipe.masking.collapse
    return build_criterion(model, recipe.objectives, heads=heads, span_boundary=span_boundary, collapsed=collapsed)
