"""Strict configuration: what is read, what is refused, and in which words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spanlab.config import (
    Above,
    AtLeast,
    AtMost,
    Below,
    Bounded,
    from_mapping,
    merge,
    parse_overrides,
    read_yaml,
    suggest_key,
    to_mapping,
)
from spanlab.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Training:
    lr: float = 1e-4
    steps: int = 100
    schedule: Literal["linear", "cosine"] = "linear"
    device: str | None = None
    phases: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    size: str
    training: Training = field(default_factory=Training)
    objectives: dict[str, float] = field(default_factory=dict)
    cased: bool = True


def test_a_file_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("size: mini\ntraining:\n  lr: 1e-3\n  phases: [[0.9, 128], [0.1, 512]]\nobjectives: {mlm: 1}\n")
    mapping, source = read_yaml(path)
    overrides = parse_overrides(["training.lr=2e-4", "objectives.sbo=0.5", "cased=false", "training.device=null"])
    recipe = from_mapping(Recipe, merge(mapping, overrides), source)
    assert recipe.training == Training(lr=2e-4, phases=((0.9, 128), (0.1, 512)))
    assert recipe.objectives == {"mlm": 1.0, "sbo": 0.5}
    assert recipe.cased is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size: mini\ntraning:\n  lr: 1", r"r.yaml:2: unknown key 'traning' \(did you mean 'training'\?\)"),
        ("size: mini\ntraining:\n  steps: 5\n  lrr: 1", r"r.yaml:4: unknown key 'training.lrr'"),
        ("size: mini\ntraining:\n  steps: many", r"r.yaml:3: 'training.steps' is 'many'; it must be a whole number"),
        ("size: mini\ntraining:\n  steps: true", "it must be a whole number"),
        ("size: mini\ntraining:\n  lr: abc", "'training.lr' is 'abc'; it must be a number"),
        ("size: mini\ntraining:\n  schedule: cosin", "did you mean 'cosine'.*one of linear, cosine"),
        ("size: mini\ntraining: 7", "'training' is 7"),
        ("size: mini\ntraining:\n  phases: [[1.0]]", "has 1 items; it must have 2"),
        ("cased: true", "key 'size' is missing"),
        ("size: [mini", r"r.yaml:1:12: not valid YAML"),
        ("- a\n- b", "expected 'key: value' lines"),
    ],
)
def test_errors_name_the_line_and_the_fix(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        from_mapping(Recipe, *read_yaml(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.yaml: no such file"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_yaml(tmp_path / "bytes.yaml")
    (tmp_path / "empty.yaml").write_text("")
    assert read_yaml(tmp_path / "empty.yaml")[0] == {}


@pytest.mark.parametrize("override", ["lr", "=3", "a..b=1", "a=[1"])
def test_overrides_that_are_none(override: str) -> None:
    with pytest.raises(ConfigError, match=r"override|cannot read"):
        parse_overrides([override])


def test_a_key_cannot_be_value_and_section() -> None:
    with pytest.raises(ConfigError, match="both as a value and as a section"):
        parse_overrides(["a=1", "a.b=2"])


TRAINING = st.builds(
    Training,
    lr=st.floats(allow_nan=False, allow_infinity=False),
    steps=st.integers(),
    schedule=st.sampled_from(["linear", "cosine"]),
    device=st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    phases=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 512)), max_size=3).map(tuple),
)


@given(st.builds(Recipe, size=st.sampled_from(["tiny", "mini"]), training=TRAINING, cased=st.booleans()))
def test_what_is_written_is_read_back(recipe: Recipe) -> None:
    text = yaml.safe_dump(to_mapping(recipe), allow_unicode=True)
    assert from_mapping(Recipe, yaml.safe_load(text)) == recipe


Share = Annotated[float, AtLeast(0), Below(1)]


@dataclass(frozen=True, kw_only=True)
class Limits(Bounded):
    length: Annotated[int, AtLeast(8)] = 512
    stride: Annotated[int, AtLeast(1)] | None = None
    ratio: Annotated[float, Above(0), AtMost(0.9)] = 0.15
    betas: tuple[Share, Share] = (0.9, 0.999)
    depths: tuple[Annotated[int, AtLeast(1)], ...] = ()
    weights: dict[str, Annotated[float, AtLeast(0)]] = field(default_factory=dict)
    precision: Annotated[int, AtLeast(1)] | Literal["auto"] = "auto"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    limits: Limits = field(default_factory=Limits)


OUT_OF_BOUNDS = {
    "length": (7, "'length' is 7; it must be at least 8"),
    "stride": (0, "'stride' is 0; it must be at least 1, or null"),
    "ratio": (0.95, "'ratio' is 0.95; it must be above 0 and at most 0.9"),
    "betas": ((0.9, 1.0), "'betas' is 1.0; it must be at least 0 and below 1"),
    "depths": ((2, 0), "'depths' is 0; it must be at least 1"),
    "weights": ({"mlm": -1.0}, "'weights.mlm' is -1.0; it must be at least 0"),
    "precision": (0, "'precision' is 0; it must be at least 1"),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_bounds_hold_in_python_and_in_a_file(name: str, tmp_path: Path) -> None:
    value, message = OUT_OF_BOUNDS[name]
    values: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError) as in_python:
        Limits(**values)
    assert in_python.value.cause == message
    path = tmp_path / "bounds.yaml"
    path.write_text(yaml.safe_dump({"limits": {**to_mapping(Limits()), name: value}}, sort_keys=False))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if text.strip().startswith(name))
    with pytest.raises(ConfigError) as in_a_file:
        from_mapping(Bounds, *read_yaml(path))
    assert in_a_file.value.cause == message.replace("'", "'limits.", 1)
    assert (in_a_file.value.path, in_a_file.value.line) == (str(path), line + (name == "weights"))


@pytest.mark.parametrize("ratio", [float("nan"), 0.0, float("inf")])
def test_numbers_outside_every_bound(ratio: float) -> None:
    with pytest.raises(ConfigError, match=r"it must be above 0 and at most 0\.9"):
        Limits(ratio=ratio)


def test_values_on_their_bounds_are_taken() -> None:
    limits = Limits(length=8, stride=1, ratio=0.9, betas=(0.0, 0.5), depths=(1,), weights={"mlm": 0.0}, precision=1)
    assert from_mapping(Limits, to_mapping(limits)) == limits
    assert Limits(stride=None).stride is None


SUGGESTED = {
    "lr": "training.lr",
    "learning_rate": "training.lr",
    "training.learning_rate": "training.lr",
    "training.num_train_epochs": "training.epochs",
    "batch-size": "training.batch_size",
    "batch_size": "training.batch_size",
    "max_seq_length": "data.length",
    "stps": "training.steps",
    "data.lenght": "data.length",
    "traning": "training",
    "masking.steps": "training.steps",
    "hidden_size": "encoder.width",
    "dropout": "encoder.dropout",
    "nonsense": None,
}


@pytest.mark.parametrize("key", SUGGESTED)
def test_a_wrong_key_suggests_the_whole_key(key: str) -> None:
    from spanlab.pretraining.recipe import Recipe, load_recipe

    assert suggest_key(key, Recipe) == SUGGESTED[key]
    hint = f"(did you mean '{SUGGESTED[key]}'?)" if SUGGESTED[key] else "unknown key 'nonsense'"
    if "-" not in key:
        with pytest.raises(ConfigError) as refusal:
            load_recipe("spanbert", [f"{key}=1"])
        assert hint in str(refusal.value)


def test_names_of_other_programs_lead_to_keys_that_exist() -> None:
    from spanlab.config import _ALSO_CALLED, all_keys
    from spanlab.finetuning.config import MultitaskConfig
    from spanlab.pretraining.recipe import Recipe
    from spanlab.tasks.table import TASKS

    configs = (Recipe, MultitaskConfig, *(task.Config for task in TASKS.values()))
    known = {key.rpartition(".")[2] for config in configs for key in all_keys(config)}
    assert set(_ALSO_CALLED.values()) <= known


@pytest.mark.parametrize("value", [5, "text", [[]], None])
def test_what_is_no_section_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="expected a section"):
        merge(value, {"a": 1})
    with pytest.raises(ConfigError, match="expected keys and values"):
        from_mapping(Training, value)
