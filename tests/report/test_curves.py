"""Points and axes of curves: nothing that matters is lost, and numbers stand where they belong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.report.curves import Axis, smooth, step_axis, thin, value_axis
from spanlab.report.number_format import duration, plain, share, short, size
from spanlab.report.run_history import Series

numbers = st.floats(-1e6, 1e6, allow_nan=False)


def series(values: list[float]) -> Series:
    return Series(np.arange(1.0, len(values) + 1), np.array(values))


@given(values=st.lists(numbers, min_size=1, max_size=400), most=st.integers(4, 60))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int) -> None:
    whole = series(values)
    few = thin(whole, most)
    assert len(few) <= max(most, 0) or len(whole) <= most
    assert (np.diff(few.steps) > 0).all()
    assert few.values.tolist() == [values[int(step) - 1] for step in few.steps]
    assert (few.steps[0], few.steps[-1]) == (1, len(values))
    assert (few.values.min(), few.values.max()) == (min(values), max(values))


@given(values=st.lists(numbers, min_size=1, max_size=700), most=st.integers(2, 60))
def test_smoothing_is_a_mean_around_each_point(values: list[float], most: int) -> None:
    few = smooth(series(values), most)
    half = len(values) // 100
    assert len(few) <= most
    for step, value in zip(few.steps.astype(int) - 1, few.values, strict=True):
        around = values[max(0, step - half) : step + half + 1]
        assert value == pytest.approx(sum(around) / len(around), rel=1e-6, abs=1e-3)


@given(low=st.floats(-1e7, 1e7), spread=st.floats(1e-6, 1e7), wanted=st.integers(3, 8))
def test_ticks_are_round_few_and_inside(low: float, spread: float, wanted: int) -> None:
    axis = Axis(low=low, high=low + spread * max(1.0, abs(low) / 1e3), begin=100.0, end=0.0)
    ticks = axis.ticks(wanted)
    assert 1 <= len(ticks) <= wanted + 1
    margin = 1e-9 * max(abs(axis.low), abs(axis.high))
    assert all(axis.low - margin <= value <= axis.high + margin for value, _ in ticks)
    places = axis.to_pixels(np.array([axis.low, axis.high]))
    assert places.tolist() == pytest.approx([100.0, 0.0])


def test_axes_of_special_series() -> None:
    flat = value_axis([np.array([3.0, 3.0])], [], begin=100, end=0, from_zero=False)
    assert flat.low < 3.0 < flat.high
    nothing = value_axis([], [], begin=100, end=0, from_zero=True)
    assert nothing.low < nothing.high
    wild = value_axis([np.array([0.01, 40.0])], [], begin=100, end=0, from_zero=False)
    assert wild.logarithmic
    assert wild.to_pixels(np.array([0.2, 2.0, 20.0])).tolist() == sorted(
        wild.to_pixels(np.array([0.2, 2.0, 20.0])), reverse=True
    )
    assert [label for _, label in wild.ticks()] == ["0.01", "0.1", "1", "10"]
    spiky = value_axis([], [np.array([1.0] * 999 + [1e3])], begin=100, end=0, from_zero=False)
    assert spiky.high < 10
    assert [label for _, label in step_axis([np.array([1.0, 2.0])], begin=0, end=1).ticks(6, whole=True)] == [
        "0",
        "1",
        "2",
    ]


@pytest.mark.parametrize(
    ("high", "labels"),
    [
        (0.0021, ["0", "5e-4", "1e-3", "1.5e-3", "2e-3"]),
        (10500, ["0", "2.5k", "5k", "7.5k", "10k"]),
        (4000, ["0", "1,000", "2,000", "3,000", "4,000"]),
        (1.1, ["0", "0.25", "0.5", "0.75", "1"]),
    ],
)
def test_labels_of_an_axis_share_a_notation(high: float, labels: list[str]) -> None:
    assert [label for _, label in Axis(low=0.0, high=high, begin=0, end=1).ticks()] == labels


def test_figures() -> None:
    assert [short(value) for value in (0, 3.2149, 1234.5, 98_765, 4.2e6, 1e-4, 2.5e-5)] == [
        "0", "3.21", "1,234", "98.8k", "4.2M", "1e-4", "2.5e-5",
    ]  # fmt: skip
    assert [duration(value) for value in (8.25, 61, 1264.2, 7500, 90_000)] == [
        "8.25 s", "1 min 1 s", "21 min 4 s", "2 h 5 min", "1 d 1 h",
    ]  # fmt: skip
    assert (share(0.6123), size(999), size(1_500), size(2_340_000_000)) == ("61.2 %", "999 bytes", "1.5 kB", "2.34 GB")
    assert plain({"mlm": 1.0, "on": [2, "x", 1e-5], "off": None}) == "mlm 1, on 2, x, 1e-5, off None"
