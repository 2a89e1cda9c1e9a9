"""Recipes: what makes a system and how it is trained, from YAML and `key=value` overrides.

A recipe is one of the shipped names (`spanbert`, `bert`, `roberta`, `albert`, `electra`, `xlnet`, `gpt`, `elmo`) or
the path of a YAML file. Its `sizes` section holds what differs between sizes; it is laid over the rest when the size is
known, and overrides are laid over both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from spanlab.config import from_mapping, merge, nested, parse_overrides, read_yaml
from spanlab.corruption.masking import MaskingConfig
from spanlab.encoder import SpanBoundaryConfig
from spanlab.errors import ConfigError, did_you_mean
from spanlab.objectives.build import OBJECTIVES
from spanlab.training.config import TrainingConfig

BlockKind = Literal["documents", "full-sentences", "next-sentence", "sentence-order", "columns"]
PAIRS = ("next-sentence", "sentence-order")
Size = Literal["tiny", "mini", "small", "base", "large"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The `data` section: how the corpus is cut into samples."""

    blocks: BlockKind = "documents"
    length: int = 512
    """Tokens of a sample, special ones included."""
    phases: tuple[tuple[float, int], ...] = ()
    """(share of the steps, length) one after the other, such as BERT's [[0.9, 128], [0.1, 512]]; none is `length`."""
    held_out: float = 0.01
    """The share of the corpus that is not trained on but scored."""
    short_share: float = 0.1
    """Sentence pairs: the share of documents with a random shorter target length."""
    random_for_single: bool = False
    """Sentence order: a chunk of one sentence takes a random second segment, as ALBERT's own script does."""
    spans: str | None = None
    """A JSON-lines file of spans for `masking.law: given`: {"start": 120, "end": 123}, in tokens of the corpus."""
    columns: int | None = None
    """Columns: how many continuous streams lie side by side. None: where steps go on from one another (XLNet, ELMo), as
    many as sequences a step, which is the only number that will do then; else one."""
    reuse: int | None = None
    """Columns: how many tokens a block begins after the one before it, and how many of it are remembered (XLNet)."""
    memory: int | None = None
    """Columns: how many tokens of earlier blocks are remembered; None for no memory."""
    random_second: float | None = None
    """Columns with `reuse`: the rest of a block is two segments, the second with this chance from elsewhere (XLNet)."""
    both_ways: bool = False
    """Columns: the second half of them are read from their end to their beginning (XLNet)."""

    def __post_init__(self) -> None:
        if self.columns is not None and self.columns < 1:
            raise ConfigError(f"'data.columns' is {self.columns}; it must be at least 1, or null")
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"'data.held_out' is {self.held_out}; it must be 0 or more and below 1")
        shares = sum(share for share, _ in self.phases)
        if self.phases and (abs(shares - 1) > 1e-6 or min(share for share, _ in self.phases) <= 0):
            raise ConfigError(f"the shares of 'data.phases' add up to {shares}; they must be above 0 and add up to 1")

    @property
    def length_phases(self) -> tuple[tuple[float, int], ...]:
        """(share of the steps, length), at least one."""
        return self.phases or ((1.0, self.length),)

    @property
    def longest(self) -> int:
        """Tokens of the longest samples of the run."""
        return max(length for _, length in self.length_phases)


@dataclass(frozen=True, kw_only=True)
class GeneratorSection:
    """The `generator` section: ELECTRA's second encoder."""

    width_share: float = 0.25
    share_embeddings: bool = True


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One system, as configured."""

    system: str
    body: str | None = None
    """The system whose encoder is trained; None: `system`'s own. With it any objective can be put on any body."""
    size: Size = "base"
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    objectives: dict[str, float] = field(default_factory=lambda: {"mlm": 1.0})
    """A weight for each objective; 0 turns one off."""
    encoder: dict[str, Any] = field(default_factory=dict)
    """Changes to the body's config, such as {"embedding_width": 128}."""
    span_boundary: SpanBoundaryConfig = field(default_factory=SpanBoundaryConfig)
    generator: GeneratorSection = field(default_factory=GeneratorSection)
    extend_vocabulary: bool = False
    """With --init: give the model the tokens of the corpus's tokenizer that it lacks."""
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        for name, weight in self.objectives.items():
            if name not in OBJECTIVES:
                raise ConfigError(f"unknown objective '{name}'{did_you_mean(name, OBJECTIVES)}")
            if weight < 0:
                raise ConfigError(f"objectives.{name} is {weight}; a weight is 0 or more")

    def weighs(self, objective: str) -> bool:
        """Whether an objective is trained."""
        return self.objectives.get(objective, 0.0) > 0

    @property
    def predicts_next(self) -> bool:
        """Whether targets are neighbouring tokens of a text that is left as it is, instead of masked ones."""
        return self.weighs("clm") or self.weighs("bilm")

    @property
    def carries(self) -> bool:
        """Whether a step goes on from what the one before it left behind: a memory, or the states of LSTMs."""
        return self.data.blocks == "columns" and (self.weighs("plm") or self.weighs("bilm"))

    @property
    def columns(self) -> int:
        """The streams that the corpus is cut into, where it is; 0 where samples stand for themselves."""
        if self.data.blocks != "columns":
            return 0
        return self.data.columns or (self.training.batch_size if self.carries else 1)


def shipped_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(path.name.removesuffix(".yaml") for path in _folder().iterdir() if path.name.endswith(".yaml"))


def load_recipe(name_or_path: str, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Recipe:
    """A shipped recipe or a YAML file, with overrides laid over it: `key=value` texts or a mapping by key."""
    mapping, source = read_yaml(_locate(name_or_path))
    changes = nested(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
    sizes = mapping.pop("sizes", None) or {}
    size = str(changes.get("size", mapping.get("size", Recipe.size)))
    if not isinstance(sizes, Mapping):
        raise source.error(("sizes",), "'sizes' must hold a section for each size")
    written = merge(mapping, sizes.get(size) or {})
    try:
        return from_mapping(Recipe, merge(written, changes), source)
    except ConfigError as error:
        from_mapping(Recipe, written, source)  # a mistake of the file's own is told with its line
        raise ConfigError(error.cause, fix=error.fix) from None


def _locate(name_or_path: str) -> Path:
    if name_or_path in shipped_recipes():
        return Path(str(_folder() / f"{name_or_path}.yaml"))
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    known = shipped_recipes()
    hint = did_you_mean(name_or_path, known)
    raise ConfigError(
        f"unknown recipe '{name_or_path}'{hint}; shipped are {', '.join(known)}", fix="or give a YAML file"
    )


def _folder() -> Any:  # noqa: ANN401 (importlib's Traversable)
    return files("spanlab.recipes")
