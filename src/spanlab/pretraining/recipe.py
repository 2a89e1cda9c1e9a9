"""Recipes: YAML and `key=value` overrides in, a frozen `Recipe` of a system and its training out.

A recipe is a shipped name, such as `spanbert` (`spanlab.recipes` has the list), or the path of a YAML file. The entry
of its `sizes` section for the chosen size takes precedence over the rest of the file, inside it the entry of
`backbones` for the chosen backbone, and overrides take precedence over all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from spanlab.config import (
    Above,
    AtLeast,
    AtMost,
    Below,
    Bounded,
    Seed,
    Source,
    from_mapping,
    merge,
    nested,
    parse_overrides,
    read_yaml,
    to_mapping,
)
from spanlab.corruption.masking import MaskingConfig
from spanlab.encoder import EncoderConfig, SpanBoundaryConfig
from spanlab.encoder.architectures import ARCHITECTURES, SYSTEMS
from spanlab.errors import ConfigError, did_you_mean
from spanlab.objectives.combinations import OBJECTIVES
from spanlab.pretraining.methods import PAIR_BLOCKS, Method, method_of
from spanlab.recipes import recipe_path, shipped_recipes
from spanlab.training.config import TrainingConfig

BlockKind = Literal["documents", "full-sentences", "next-sentence", "sentence-order", "streams"]
Size = Literal["tiny", "mini", "small", "base", "large"]
_Length = Annotated[int, AtLeast(1), AtMost(1_000_000)]
_Share = Annotated[float, AtLeast(0), AtMost(1)]


@dataclass(frozen=True, kw_only=True)
class DataConfig(Bounded):
    """The `data` section: how the corpus is cut into samples."""

    blocks: BlockKind = "documents"
    """Whole sentences of one document; whole sentences across documents (RoBERTa); pairs for nsp (BERT) or sop
    (ALBERT); continuous text (XLNet, GPT, ELMo)."""
    length: _Length = 512
    """Tokens of a sample, special tokens included."""
    phases: tuple[tuple[_Share, _Length], ...] = ()
    """(share of the steps, length) in order, such as BERT's [[0.9, 128], [0.1, 512]]; empty: `length` throughout."""
    held_out: Annotated[float, AtLeast(0), Below(1)] = 0.01
    """The share of the corpus that is held out for evaluation."""
    short_share: _Share = 0.1
    """Sentence pairs: the share of documents with a random shorter target length."""
    random_for_single: bool = False
    """Sentence order: a chunk of one sentence gets a random second segment, as in ALBERT's released code."""
    spans: str | None = None
    """A JSON-lines file of spans for `masking.law: given`: {"start": 120, "end": 123}, in tokens of the corpus. None:
    the names that `spanlab prepare --spans` found in it."""
    streams: Annotated[int, AtLeast(1), AtMost(1_000_000)] | None = None
    """Streams: the number of continuous streams. None: `training.batch_size` if each step continues from the previous
    one (XLNet, ELMo), where no other number is allowed; else 1."""
    reuse: _Length | None = None
    """Streams: the stride of blocks in tokens, and the number of tokens of a block that go into the memory (XLNet)."""
    memory: Annotated[int, AtLeast(0), AtMost(1_000_000)] | None = None
    """Streams: the number of tokens of earlier blocks in the memory; None: no memory."""
    random_second: _Share | None = None
    """Streams with `reuse`: the rest of a block is two segments, the second a random one with this chance (XLNet)."""
    both_ways: bool = False
    """Streams: half of them are read from right to left (XLNet)."""

    def __post_init__(self) -> None:
        super().__post_init__()
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
class GeneratorSection(Bounded):
    """The `generator` section: ELECTRA's second encoder."""

    width_share: Annotated[float, Above(0), AtMost(4)] = 0.25
    """The generator's width as a share of the discriminator's."""
    share_embeddings: bool = True
    """Whether both encoders have the same embeddings."""


@dataclass(frozen=True, kw_only=True)
class Recipe(Bounded):
    """A system and how it is trained."""

    system: str
    """The name of the system, such as spanbert; the model folder and its card bear it."""
    backbone: str | None = None
    """The system whose encoder is trained; None: `system`. What a recipe's `encoder` section sets for its own encoder
    and the backbone does not have is left out; objectives that cannot be trained on it are refused."""
    size: Size = "base"
    """Layers and width: 2 of 128, 4 of 256, 4 of 512, 12 of 768, 24 of 1,024."""
    seed: Seed = 0
    """Everything random is a function of it: initial weights, masks, the order of samples."""
    data: DataConfig = field(default_factory=DataConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    objectives: dict[str, Annotated[float, AtMost(1_000_000)]] = field(default_factory=lambda: {"mlm": 1.0})
    """A weight for each objective; 0 turns one off."""
    encoder: dict[str, Any] = field(default_factory=dict, metadata={"keys_of": EncoderConfig})
    """Changes to the backbone's `EncoderConfig`, such as {"embedding_width": 128}."""
    output_bias: Literal["zero", "unigram"] = "zero"
    """How the output biases of new heads start: at 0 as published, or at the log of each token's share of the corpus,
    which need not be learned then."""
    word_embeddings: Literal["random", "cooccurrence"] = "random"
    """How new word embeddings start: at random as published, or as vectors that factorise how often tokens stand next
    to one another in the corpus, which takes seconds."""
    span_boundary: SpanBoundaryConfig = field(default_factory=SpanBoundaryConfig)
    generator: GeneratorSection = field(default_factory=GeneratorSection)
    extend_vocabulary: bool = False
    """With --init: add the tokens of the corpus's tokenizer that the model lacks."""
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, weight in self.objectives.items():
            if name not in OBJECTIVES:
                raise ConfigError(f"unknown objective '{name}'{did_you_mean(name, OBJECTIVES)}")
            if weight < 0:
                raise ConfigError(f"objectives.{name} is {weight}; a weight is 0 or more")

    @property
    def active_objectives(self) -> tuple[str, ...]:
        """The objectives with a weight above 0, in the order of the recipe."""
        return tuple(name for name, weight in self.objectives.items() if weight > 0)

    @property
    def method(self) -> Method:
        """The pre-training method that the objectives imply."""
        return method_of(self.active_objectives)

    @property
    def corruption(self) -> Literal["masks", "permutation"] | None:
        """How examples are corrupted; None: not at all, neighbouring tokens are predicted."""
        if not self.method.corrupts:
            return None
        return "permutation" if self.masking.law == "permutation" else "masks"

    @property
    def classifies_pairs(self) -> bool:
        """Whether an objective classifies sentence pairs (nsp, sop)."""
        return not PAIR_BLOCKS.keys().isdisjoint(self.active_objectives)

    @property
    def recurrent(self) -> bool:
        """Whether each step continues from the state of the previous one: XLNet's memory, the states of LSTMs."""
        return self.data.blocks == "streams" and self.method.recurrent

    @property
    def streams(self) -> int:
        """The number of continuous streams that the corpus is split into; 0: samples are independent."""
        if self.data.blocks != "streams":
            return 0
        return self.data.streams or (self.training.batch_size if self.recurrent else 1)


def load_recipe(name_or_path: str, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Recipe:
    """A shipped recipe or a YAML file, changed by overrides: `key=value` strings or a mapping."""
    written, changes, source = read_recipe(name_or_path, overrides)
    try:
        return from_mapping(Recipe, merge(written, changes), source)
    except ConfigError as error:
        from_mapping(Recipe, written, source)  # a mistake in the file is reported with its line
        raise ConfigError(error.cause, fix=error.fix) from None


def read_recipe(
    name_or_path: str, overrides: Sequence[str] | Mapping[str, Any] = ()
) -> tuple[dict[str, Any], dict[str, Any], Source]:
    """What a recipe's file says for the size and backbone that are chosen, the overrides, and the lines of the keys."""
    mapping, source = read_yaml(locate_recipe(name_or_path))
    changes = nested(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)
    _refuse_old_names(mapping, source)
    _refuse_old_names(changes, Source())
    sizes = _sections(mapping.pop("sizes", None), source, "size", ("sizes",))
    size = str(changes.get("size", mapping.get("size", Recipe.size)))
    of_size = dict(sizes.get(size) or {})
    _refuse_old_names(of_size, source, ("sizes", size))
    backbones = _sections(of_size.pop("backbones", None), source, "backbone", ("sizes", size, "backbones"))
    written = merge(mapping, of_size)
    backbone = changes.get("backbone", written.get("backbone"))
    written = merge(written, backbones.get(backbone) or {})
    written = _without_foreign_settings(written, changes.get("backbone"))
    if _asks_for_share(changes):
        written = merge(written, {"masking": {"permutation": {"predictions": None}}})
    return written, changes, _with_lines_of(source, ("sizes", size), ("sizes", size, "backbones", str(backbone)))


def _with_lines_of(source: Source, *sections: tuple[str, ...]) -> Source:
    """The source where keys of these sections, which take precedence, have their lines there."""
    lines = dict(source.lines)
    for section in sections:
        depth = len(section)
        lines |= {key[depth:]: line for key, line in source.lines.items() if key[:depth] == section and key[depth:]}
    return replace(source, lines=lines)


def yaml_of(recipe: Recipe) -> str:
    """A resolved recipe as YAML, usable as a recipe file."""
    return yaml.safe_dump(to_mapping(recipe), sort_keys=False, allow_unicode=True)


def _asks_for_share(changes: Mapping[str, Any]) -> bool:
    """Whether overrides set the share of predicted tokens (XLNet's alpha and beta); then their number must not be set.

    A recipe's file may have both, as the published settings have: 85 of 512 tokens are one in six.
    """
    masking = changes.get("masking")
    permutation = masking.get("permutation") if isinstance(masking, Mapping) else None
    if not isinstance(permutation, Mapping):
        return False
    shares = [key for key in ("alpha", "beta") if key in permutation]
    if shares and permutation.get("predictions") is not None:
        cause = f"masking.permutation.{shares[0]} and predictions both say how many tokens are predicted"
        raise ConfigError(cause, fix="set predictions for a number, or alpha and beta for a share")
    return bool(shares)


def _without_foreign_settings(written: Mapping[str, Any], backbone: Any) -> dict[str, Any]:  # noqa: ANN401 (YAML)
    """The recipe without those settings of its own encoder that another backbone, chosen by an override, lacks."""
    own, section = written.get("backbone") or written.get("system"), written.get("encoder")
    if backbone is None or backbone == own or not isinstance(section, Mapping):
        return dict(written)
    name = SYSTEMS[backbone]["architecture"] if backbone in SYSTEMS else str(backbone)
    settings = ARCHITECTURES[name].settings if name in ARCHITECTURES else None
    if settings is None:
        return dict(written)
    return {**written, "encoder": {key: value for key, value in section.items() if key in settings}}


def _sections(value: Any, source: Source, name: str, key: tuple[str, ...]) -> dict[Any, Any]:  # noqa: ANN401 (YAML)
    """The sections of a file for each size or backbone."""
    sections = value or {}
    if not isinstance(sections, dict) or not all(isinstance(section or {}, Mapping) for section in sections.values()):
        raise source.error(key, f"'{key[-1]}' must hold a section for each {name}")
    return sections


_RENAMED = {("body",): "backbone", ("data", "columns"): "streams"}
_OLD_BLOCKS, _NEW_BLOCKS = "columns", "streams"


def with_current_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of an older run with its renamed keys under their current names."""
    renamed = {_RENAMED.get((key,), key): value for key, value in config.items()}
    if isinstance(data := renamed.get("data"), Mapping):
        data = {_RENAMED.get(("data", key), key): value for key, value in data.items()}
        renamed["data"] = data | ({"blocks": _NEW_BLOCKS} if data.get("blocks") == _OLD_BLOCKS else {})
    return renamed


def _refuse_old_names(mapping: Mapping[str, Any], source: Source, prefix: tuple[str, ...] = ()) -> None:
    """Refuse a renamed key with its current name."""
    for (*section, key), new in _RENAMED.items():
        holder = mapping.get(section[0]) if section else mapping
        if isinstance(holder, Mapping) and key in holder:
            old_path, new_path = ".".join([*section, key]), ".".join([*section, new])
            raise source.error((*prefix, *section, key), f"'{old_path}' is now '{new_path}'", fix=f"write {new_path}")
    data = mapping.get("data")
    if isinstance(data, Mapping) and data.get("blocks") == _OLD_BLOCKS:
        key_path = (*prefix, "data", "blocks")
        raise source.error(key_path, f"data.blocks={_OLD_BLOCKS} is now data.blocks={_NEW_BLOCKS}", fix="write streams")


def locate_recipe(name_or_path: str) -> Path:
    """The file of a shipped recipe, or a file of the user's."""
    if name_or_path in shipped_recipes():
        return recipe_path(name_or_path)
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"} or path.exists():
        return path
    known = shipped_recipes()
    hint = did_you_mean(name_or_path, known)
    raise ConfigError(
        f"unknown recipe '{name_or_path}'{hint}; shipped are {', '.join(known)}", fix="or give a YAML file"
    )
