"""Builds a run: a recipe and prepared corpora in, a `TrainingSpec` for the training loop out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from spanlab.atomic_io import write_atomically
from spanlab.corpus import PreparedCorpus
from spanlab.corruption import ExampleBatch
from spanlab.encoder import ElmoEncoder, Encoder, EncoderConfig, save_model
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import BidirectionalLM, Mixture, PermutationLM, ReplacedToken
from spanlab.pretraining.batches import PretrainingData, count_without, held_out_ranges
from spanlab.pretraining.card import write_card
from spanlab.pretraining.compatibility import check_recipe
from spanlab.pretraining.evaluation import HeldOut
from spanlab.pretraining.initial_model import InitialModel, build_model
from spanlab.pretraining.new_encoder import new_encoder_config
from spanlab.pretraining.recipe import Recipe
from spanlab.pretraining.stream_batches import StreamData
from spanlab.pretraining.word_vectors import cooccurrence_vectors
from spanlab.training.spec import TrainingSpec, evaluation_cost


@dataclass(frozen=True)
class WeightedCorpus:
    """A prepared corpus and its weight in the mixture."""

    corpus: PreparedCorpus
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "WeightedCorpus":
        """From `DIR` or `DIR:WEIGHT`, where DIR may be a URL."""
        folder, weight = split_weight(text)
        if weight is not None:
            try:
                return cls(PreparedCorpus.open(folder), float(weight))
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"'{weight}' is not a weight", path=text, fix="write DIR:WEIGHT, such as novels:2"
                ) from None
        return cls(PreparedCorpus.open(text))


def split_weight(text: str) -> tuple[str, str | None]:
    """(corpus, weight) of `DIR` or `DIR:WEIGHT`; the colons of a URL and of an existing folder are theirs."""
    folder, colon, weight = text.rpartition(":")
    if not colon or "/" in weight or Path(text).exists():
        return text, None
    return folder, weight


def build_training_spec(
    recipe: Recipe, corpora: Sequence[WeightedCorpus], init: str | None, *, processes: int = 1
) -> tuple[TrainingSpec[ExampleBatch], InitialModel]:
    """The spec for the training loop, and the model it starts from; raises if `processes` cannot train the recipe."""
    check_recipe(recipe, on_backbone=init is None)
    tokenizer = corpora[0].corpus.tokenizer
    for item in corpora[1:]:
        item.corpus.check_tokenizer(tokenizer, corpora[0].corpus.folder)
    data = build_data(recipe, corpora)
    shares = _token_shares(corpora, recipe.data.held_out) if recipe.output_bias == "unigram" else None
    vectors = _word_vectors(recipe, corpora) if init is None and recipe.word_embeddings == "cooccurrence" else None
    initial_model = build_model(recipe, tokenizer, init, token_shares=shares, word_vectors=vectors)
    criterion = initial_model.criterion
    criterion.require_targets(data.step(0, rank=0, world_size=processes)[0])
    assert isinstance(criterion, nn.Module)

    held_out = HeldOut(criterion, data.held_out) if data.held_out is not None else None
    corpus_names = [Path(item.corpus.source).name for item in corpora]
    tokens = sum(item.corpus.counts.tokens for item in corpora)

    def export(model: nn.Module, folder: Path) -> None:
        save_criterion(folder, model, recipe.system)
        tokenizer.save(folder)
        scores = {} if held_out is None else held_out.latest
        card = write_card(recipe, corpus_names, tokens, init=init, scores=scores)
        write_atomically(folder / "README.md", card.encode())

    spec = TrainingSpec(
        criterion=criterion,
        data=data,
        export=export,
        evaluate=held_out,
        shard_layers=recipe.method.layer,
        flops_per_token=training_flops(criterion, recipe),
        evaluation_cost=_evaluation_cost(recipe, data),
    )
    return spec, initial_model


def _token_shares(corpora: Sequence[WeightedCorpus], held_out: float) -> NDArray[np.float64]:
    """(V,) the share of each token in the training text; one that does not occur counts as if it occurred once."""
    shares = []
    for item in corpora:
        counts, _ = count_without(item.corpus, *held_out_ranges(item.corpus.counts.tokens, held_out))
        shares.append(item.weight * (counts + 1) / (counts + 1).sum())
    mixed: NDArray[np.float64] = np.sum(shares, axis=0) / sum(item.weight for item in corpora)
    return mixed


def _word_vectors(recipe: Recipe, corpora: Sequence[WeightedCorpus]) -> NDArray[np.float32]:
    """(V, E) vectors from co-occurrence, as wide as the recipe's word embeddings."""
    if (recipe.backbone or recipe.system) == "elmo":
        raise ConfigError("ELMo builds its word vectors from characters", fix="set word_embeddings=random")
    tokenizer = corpora[0].corpus.tokenizer
    config = new_encoder_config(recipe, vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id)
    assert isinstance(config, EncoderConfig)
    return cooccurrence_vectors(
        [item.corpus for item in corpora],
        [item.weight for item in corpora],
        held_out=recipe.data.held_out,
        width=config.table_width,
        seed=recipe.seed,
    )


def _evaluation_cost(recipe: Recipe, data: PretrainingData | StreamData) -> float:
    if data.held_out is None:
        return 0.0
    length = recipe.data.longest
    return evaluation_cost(data.held_out.held_out_samples() * length, recipe.training.batch_size * length)


def build_data(recipe: Recipe, corpora: Sequence[WeightedCorpus]) -> PretrainingData | StreamData:
    """The batches of a run: independent samples, or streams where each step continues from the previous one."""
    if not recipe.recurrent:
        return PretrainingData([item.corpus for item in corpora], [item.weight for item in corpora], recipe)
    if len(corpora) > 1:
        cause = f"{recipe.system} reads continuous streams, which cannot mix {len(corpora)} corpora"
        raise ConfigError(cause, fix="prepare their files as one corpus")
    return StreamData(corpora[0].corpus, recipe)


def save_criterion(folder: Path, criterion: nn.Module, system: str) -> None:
    """Write a trained model with its heads as a model folder."""
    if isinstance(criterion, ReplacedToken):
        criterion.pair.save_pretrained(folder)
    else:
        assert isinstance(criterion, Mixture | PermutationLM | BidirectionalLM)
        save_model(folder, criterion.encoder, criterion.heads, system=system)


def training_flops(criterion: nn.Module, recipe: Recipe) -> float:
    """FLOPs of a training step per token: the forward pass, and twice that for the backward pass."""
    encoders = [module for module in criterion.modules() if isinstance(module, Encoder)]
    length = recipe.data.length_phases[0][1]
    # ELMo batches have forward and backward sequences, so each token is read by one of the two LSTMs.
    layers = sum(
        encoder.flops_per_token(length) / (2 if isinstance(encoder, ElmoEncoder) else 1) for encoder in encoders
    )
    config = encoders[-1].config
    output = 2 * config.vocab_size * config.table_width * predictions_per_token(recipe, length)
    return 3.0 * (layers + output)


def predictions_per_token(recipe: Recipe, length: int) -> float:
    """Predictions per input token, added up over the objectives."""
    law = recipe.masking.permutation
    permuted = law.beta / law.alpha if law.predictions is None else law.predictions / length
    shares = {"mlm": recipe.masking.ratio, "sbo": recipe.masking.ratio, "plm": permuted, "clm": 1.0, "bilm": 1.0}
    return sum(share for name, share in shares.items() if name in recipe.active_objectives)
