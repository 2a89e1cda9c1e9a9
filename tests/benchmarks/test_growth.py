"""Exponents of known laws, pictures that hold every line, and texts of the size that is asked for."""

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.growth import Curve, draw, fitted, write_text
from benchmarks.growth_points import training


@pytest.mark.parametrize(
    ("law", "exponent"), [(lambda x: 7.0 * x, 1.0), (lambda x: x * x / 3, 2.0), (lambda x: 5.0, 0.0)]
)
def test_the_exponent_is_that_of_the_law(law: Callable[[float], float], exponent: float) -> None:
    curve = fitted("time", "length", "s", {x: law(x) for x in (1.0, 2.0, 4.0, 8.0)})
    assert curve.exponent == pytest.approx(exponent, abs=1e-2)
    assert curve.x == (1.0, 2.0, 4.0, 8.0)


def test_a_picture_has_a_line_and_a_name_for_every_curve(tmp_path: Path) -> None:
    curves = [
        Curve(of=of, against="characters", unit="s", x=(1e3, 1e4), y=y, exponent=1.5, picture="growth_text_seconds.svg")
        for of, y in (("coref", (1.0, 30.0)), ("qa", (2.0, 20.0)), ("flat", (3.0, 3.0)))
    ]
    draw([*curves, Curve(of="x", against="y", unit="", x=(1, 2), y=(1, 2), exponent=1.0)], tmp_path)
    (path,) = tmp_path.iterdir()
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert len(root.findall("{*}polyline")) == len(curves) + 1  # and the dashed one of linear growth
    names = {element.text for element in root.findall("{*}text")}
    assert {"coref: 1.50", "qa: 1.50", "flat: 1.50"} <= names


@pytest.mark.parametrize("megabytes", [0.001, 0.0105, 0.03])
def test_text_has_the_size_that_is_asked_for(megabytes: float, tmp_path: Path) -> None:
    novels = [tmp_path / f"{name}.txt" for name in "ab"]
    for novel in novels:
        novel.write_text(f"Grüße aus dem Hafen {novel.stem}.\n" * 200, encoding="utf-8")
    files = sorted(write_text(novels, tmp_path / "text", megabytes).iterdir())
    assert sum(file.stat().st_size for file in files) == pytest.approx(megabytes * 1e6, abs=2)
    assert len({file.read_bytes() for file in files if file.stat().st_size > 20}) == len(files)


def test_a_point_of_training_is_measured() -> None:
    found = training(layers=1, width=64, length=16, batch=2, vocabulary=100, predicted=0.2)
    assert found["tokens_per_second"] == pytest.approx(32 / found["seconds"])
