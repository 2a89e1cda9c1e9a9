"""The figures of docs/scale.md are those that `benchmarks.scale` computes."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale import (
    GPUS,
    TABLES,
    Assumptions,
    daly_interval,
    lost_share,
    network_table,
    preparation_table,
    read_measured,
    spanbert_base,
    with_figures,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"


def test_the_page_has_the_computed_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in TABLES if f"<!-- figures: {name} -->" not in page] == []
    assert with_figures(page) == page, "run: python -m benchmarks.scale --write docs/scale.md"


def test_another_figure_is_another_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text(encoding="utf-8")
    measured = replace(read_measured(), worker_seconds_per_mb=9.0)
    monkeypatch.setattr("benchmarks.scale.read_measured", lambda: measured)
    assert with_figures(page) != page


def test_the_model_is_spanbert_base() -> None:
    """BERT-base with this vocabulary has 108.3 million; the boundary head and MLM's transform are the rest."""
    model = spanbert_base()
    assert 108.3e6 < model.parameters < 112e6
    assert 6 * 85e6 < model.flops_per_token < 7 * 110e6


@pytest.mark.parametrize(("cost", "between"), [(10.0, 1e6), (34.0, 2.8e6), (300.0, 4e4)])
def test_no_interval_loses_less_than_dalys(cost: float, between: float) -> None:
    best = daly_interval(cost, between)
    lost = lost_share(best, cost, between, Assumptions())
    for factor in (0.5, 0.8, 1.25, 2.0):
        assert lost_share(factor * best, cost, between, Assumptions()) > lost


def test_workers_help_until_the_writer_is_the_limit() -> None:
    measured = replace(read_measured(), worker_seconds_per_mb=1.6, parent_seconds_per_mb=0.1)
    rows = [line.split(" | ") for line in preparation_table(measured, Assumptions()).splitlines()[2:]]
    hours = [float(row[1]) for row in rows]
    assert hours[0] == pytest.approx(100e3 * 1.6 / 3600, abs=0.05)
    assert hours[-1] == pytest.approx(100e3 * 0.1 / 3600, abs=0.05)
    assert [row[2].strip(" |") for row in rows] == ["the workers"] * 3 + ["the writing process"] * 2


def test_larger_batches_hide_the_network() -> None:
    rows = [line.strip("| ").split(" | ") for line in network_table(read_measured(), Assumptions()).splitlines()[2:]]
    needed = [float(row[4].split()[0]) for row in rows]
    small, large = needed[: len(GPUS)], needed[len(GPUS) :]
    assert [round(one / other) for one, other in zip(small, large, strict=True)] == [8] * len(GPUS)
    assert small == sorted(small)
