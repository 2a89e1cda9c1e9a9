"""A recipe and prepared corpora become the work of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from spanlab.corpus import PreparedCorpus
from spanlab.corruption import ExampleBatch
from spanlab.encoder import Encoder, save_model
from spanlab.encoder.accounting import flops_per_token
from spanlab.encoder.block import Block
from spanlab.errors import ConfigError, InputError
from spanlab.objectives import Mixture, ReplacedToken
from spanlab.pretraining.card import write_card
from spanlab.pretraining.held_out import HeldOut
from spanlab.pretraining.model import Beginning, build_model
from spanlab.pretraining.recipe import PAIRS, Recipe
from spanlab.pretraining.step_data import PretrainingData
from spanlab.training.work import Work


@dataclass(frozen=True)
class WeightedCorpus:
    """A prepared corpus and its share in the mixture."""

    corpus: PreparedCorpus
    weight: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "WeightedCorpus":
        """From `DIR` or `DIR:WEIGHT`."""
        folder, colon, weight = text.rpartition(":")
        if colon and not Path(text).exists():
            try:
                return cls(PreparedCorpus.open(folder), float(weight))
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"'{weight}' is no weight", path=text, fix="write DIR:WEIGHT, such as novels:2"
                ) from None
        return cls(PreparedCorpus.open(text))


def build_work(
    recipe: Recipe, corpora: Sequence[WeightedCorpus], init: str | None
) -> tuple[Work[ExampleBatch], Beginning]:
    """What the loop trains, and what it begins with."""
    check_recipe(recipe)
    tokenizer = corpora[0].corpus.tokenizer
    for other in corpora[1:]:
        other.corpus.check_tokenizer(tokenizer, corpora[0].corpus.folder)
    data = PretrainingData([item.corpus for item in corpora], [item.weight for item in corpora], recipe)
    beginning = build_model(recipe, tokenizer, init)
    criterion = beginning.criterion
    criterion.require_targets(data.step(0, part=0, parts=1)[0])
    assert isinstance(criterion, nn.Module)

    card = write_card(
        recipe,
        [item.corpus.folder.resolve().name for item in corpora],
        sum(item.corpus.counts.tokens for item in corpora),
    )

    def export(model: nn.Module, folder: Path) -> None:
        save_criterion(folder, model, recipe.system)
        tokenizer.save(folder)
        (folder / "README.md").write_text(card, encoding="utf-8")

    work = Work(
        criterion=criterion,
        data=data,
        export=export,
        evaluate=HeldOut(criterion, data.phases[-1].samples) if recipe.data.held_out else None,
        shard_layers=Block,
        flops_per_token=training_flops(criterion, recipe, data.phases[0].length),
    )
    return work, beginning


def check_recipe(recipe: Recipe) -> None:
    """Refuse objectives whose questions the blocks do not ask."""
    asked = {"nsp": "next-sentence", "sop": "sentence-order"}
    for objective, blocks in asked.items():
        if recipe.weighs(objective) and recipe.data.blocks != blocks:
            cause = f"objectives.{objective} asks about pairs, and data.blocks is {recipe.data.blocks}"
            raise ConfigError(cause, fix=f"set data.blocks={blocks}, or objectives.{objective}=0")
    if recipe.data.blocks in PAIRS and not recipe.weighs("nsp") and not recipe.weighs("sop"):
        return  # pairs without a question are two segments, as ELECTRA had them


def save_criterion(folder: Path, criterion: nn.Module, system: str) -> None:
    """The model folder of what was trained, heads included."""
    if isinstance(criterion, ReplacedToken):
        criterion.pair.save_pretrained(folder)
    else:
        assert isinstance(criterion, Mixture)
        save_model(folder, criterion.encoder, criterion.heads, system=system)


def training_flops(criterion: nn.Module, recipe: Recipe, length: int) -> float:
    """Operations of a training step for one token: forward and twice that backward, predicted tokens included."""
    encoders = [module for module in criterion.modules() if isinstance(module, Encoder)]
    body = sum(flops_per_token(encoder.config, length) for encoder in encoders)
    projections = sum(recipe.weighs(name) for name in ("mlm", "sbo"))
    last = encoders[-1].config
    output = 2 * last.vocab_size * last.table_width * recipe.masking.ratio * projections
    return 3.0 * (body + output)
