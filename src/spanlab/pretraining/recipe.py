"""Recipes: which data, which masks and which objectives make a system, from YAML and `key=value` overrides.

A recipe is one of the shipped names (`spanbert`, `bert`, `roberta`, `albert`, `electra`, `gpt`, `elmo`) or the path of
a YAML file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from spanlab.configuration import from_mapping, merge, parse_overrides, read_yaml
from spanlab.corruption.masking import MaskingConfig
from spanlab.errors import ConfigError, did_you_mean

OBJECTIVE_NAMES = ("mlm", "sbo", "nsp", "sop", "rtd", "clm", "bilm")
"""What a recipe may weigh; the same names as in the objectives room, which is not imported to read a recipe."""

BlockKind = Literal["documents", "full-sentences", "next-sentence", "sentence-order", "stream"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The `data` section: how the corpus is cut into samples."""

    blocks: BlockKind = "documents"
    length: int = 512
    """Tokens of a sample, special ones included."""
    columns: int = 1
    """Stream: how many continuous streams the corpus is cut into, read side by side."""
    short_share: float = 0.1
    """Sentence pairs: the share of documents with a random shorter target length."""
    random_for_single: bool = False
    """Sentence order: a chunk of one sentence takes a random second segment, as ALBERT's own script does."""
    spans: str | None = None
    """A JSON-lines file of spans for `masking.law: given`: {"start": 120, "end": 123}, in tokens of the corpus."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One system, as configured."""

    system: str
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    objectives: dict[str, float] = field(default_factory=lambda: {"mlm": 1.0})
    """A weight for each objective; 0 turns one off."""

    def __post_init__(self) -> None:
        for name, weight in self.objectives.items():
            if name not in OBJECTIVE_NAMES:
                raise ConfigError(f"unknown objective '{name}'{did_you_mean(name, OBJECTIVE_NAMES)}")
            if weight < 0:
                raise ConfigError(f"objectives.{name} is {weight}; a weight is 0 or more")

    def trains(self, objective: str) -> bool:
        """Whether an objective has a weight."""
        return self.objectives.get(objective, 0.0) > 0

    @property
    def predicts_next(self) -> bool:
        """Whether targets are neighbouring tokens of a text that is left as it is, instead of masked ones."""
        return self.trains("clm") or self.trains("bilm")


def shipped_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(path.name.removesuffix(".yaml") for path in _folder().iterdir() if path.name.endswith(".yaml"))


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """A shipped recipe or a YAML file, with `key=value` overrides laid over it."""
    mapping, source = read_yaml(_locate(name_or_path))
    changes: dict[str, Any] = parse_overrides(overrides)
    return from_mapping(Recipe, merge(mapping, changes), source)


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
