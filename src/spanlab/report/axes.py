"""Axes of a chart: from numbers to places on the paper, and the round numbers to write beside them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.report.number_format import scientific
from spanlab.report.run_history import Numbers


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A stretch of numbers laid on a stretch of paper."""

    low: float
    high: float
    begin: float
    end: float
    """Where `low` and `high` are drawn."""
    logarithmic: bool = False

    def place(self, values: Numbers) -> Numbers:
        """Where numbers are drawn."""
        low, high = (math.log(self.low), math.log(self.high)) if self.logarithmic else (self.low, self.high)
        shown = np.log(np.maximum(values, self.low / 1e3)) if self.logarithmic else values
        return self.begin + (shown - low) / (high - low) * (self.end - self.begin)

    def ticks(self, wanted: int = 5, *, whole: bool = False) -> list[tuple[float, str]]:
        """Round numbers within, about as many as wanted, each with its label; on request, only `whole` ones."""
        values = _powers(self.low, self.high) if self.logarithmic else _multiples(self.low, self.high, wanted)
        values = [value for value in values if not whole or value == round(value)]
        return list(zip(values, _labels(values), strict=True))


def value_axis(
    values: Sequence[Numbers], spread: Sequence[Numbers], *, begin: float, end: float, from_zero: bool
) -> Axis:
    """An axis for all of `values`, and for `spread` but its rarest hundredths: one spike must not flatten a curve."""
    usual = [np.percentile(part, [0.5, 99.5]) for part in spread if len(part)]
    every = np.concatenate([np.zeros(0), *values, *usual])
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    if not from_zero and low > 0 and high / low > 50:
        return Axis(low=low / 1.1, high=high * 1.1, begin=begin, end=end, logarithmic=True)
    low = min(0.0, low) if from_zero else low
    room = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    return Axis(low=low if from_zero else low - room, high=high + room, begin=begin, end=end)


def step_axis(steps: Sequence[Numbers], *, begin: float, end: float) -> Axis:
    """An axis from 0 to the last step."""
    return Axis(low=0.0, high=max((float(part[-1]) for part in steps if len(part)), default=1.0), begin=begin, end=end)


def _multiples(low: float, high: float, wanted: int) -> list[float]:
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 3 else (1,)
    found = [factor * 10.0**power for power in decades for factor in factors]
    return [value for value in found if low <= value <= high]


def _labels(values: list[float]) -> list[str]:
    """All in one notation, that of the largest: 2.5k beside 10k, 5e-4 beside 2e-3."""
    largest = max(map(abs, values), default=0.0)
    if largest >= 1e4:
        factor, unit = (1e6, "M") if largest >= 1e6 else (1e3, "k")
        return [f"{value / factor:.6g}{unit}" if value else "0" for value in values]
    if largest < 1e-2:
        return [scientific(value) for value in values]
    return [f"{value:,.6g}" for value in values]
