"""Strict configuration: what is read, what is refused, and in which words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spanlab.config import from_mapping, merge, parse_overrides, read_yaml, to_mapping
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
        ("size: [mini", r"r.yaml:\d+: not valid YAML"),
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
