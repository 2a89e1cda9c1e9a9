"""How sure a difference between two systems is: the paired multi-bootstrap over seeds and test units.

What enters is the counts of two systems (`score_counts`), each trained with the same seeds and tested on the same
units; what leaves is the mean difference, its interval, a two-sided p, the chance that a run of one beats a run of the
other, and the smallest difference that such a study would have noticed.

A result would differ with other seeds and with other test examples, and both must count (Sellam et al., "The
MultiBERTs", 2022). So seeds and units are drawn with replacement, for both systems alike: pairs stay together. The
percentiles of these draws are not an interval yet. Of three seeds, a bootstrap sees two thirds of their variance and
knows nothing of how uncertain an estimate from three numbers is: where seeds differ much, it finds a difference in a
quarter of the studies of two systems that do not differ. Therefore the draws only give the variance that comes from the
test units, and the interval is that of a t test:

    variance     V = s²/S + E; s² is the variance of the difference over the S seeds, E that over test sets, without
                 what seeds and units have together (a two-way table without repetition), which s² holds already
    half width   c·√V; c is the mean of two critical values of t, both for a sum of variances of unequal certainty:
                 Satterthwaite's (1946), a little too small for three seeds, and Cochran and Cox's (1950), too large

In simulated studies of equal systems (6,000 for each of 50 mixtures of the variances, with 3 to 5 seeds and 20 to 1,000
units) 3.9 to 6.1 % had p < 0.05. With one system each (`S` = 1) the statement is about these two models only.

Shapes: S seeds, U units, R resamples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.errors import InputError
from spanlab.metrics.precision_recall import check_paired
from spanlab.metrics.score_counts import Floats, Rule, ScoreCounts, resampled_scores

RESAMPLES = 2000
CONFIDENCE = 0.95
POWER = 0.8
_SMALLEST_P = 1e-12
_CHUNK = 4_000_000
"""Weights held in memory at once."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of a system to a baseline on one test set."""

    mean: float
    low: float
    high: float
    """The bounds of the 95 % interval."""
    p: float
    """Two-sided: how often a difference at least this large would be seen if there were none."""
    win_chance: float
    """The chance that a run of the system scores above a run of the baseline with the same seed on another test set."""
    detectable: float
    """The smallest true difference that has p < 0.05 in four of five such studies."""
    standard_error: float
    seeds: int
    units: int


@dataclass(frozen=True, kw_only=True)
class _Variance:
    """The two independent parts of the variance of a mean difference, with their degrees of freedom."""

    seeds: float
    units: float
    seed_freedom: int
    unit_freedom: int

    @property
    def standard_error(self) -> float:
        return float(np.sqrt(self.seeds + self.units))

    @property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom of the sum."""
        parts = [(self.seeds, self.seed_freedom), (self.units, self.unit_freedom)]
        return (self.seeds + self.units) ** 2 / sum(part**2 / freedom for part, freedom in parts if part)

    def critical(self, p: float) -> float:
        """How many standard errors a difference has that is found by chance with probability `p`."""
        from scipy.stats import t as student

        share = self.seeds / (self.seeds + self.units)
        parts = [(share, self.seed_freedom), (1 - share, self.unit_freedom)]
        # The survival function's inverse: 1 - p/2 would lose the digits of a small p.
        cochran_cox = sum(weight * student.isf(p / 2, freedom) for weight, freedom in parts if weight)
        return float((student.isf(p / 2, self.freedom) + cochran_cox) / 2)

    def p_value(self, mean: float) -> float:
        """The two-sided p of a mean difference."""
        if not self.standard_error:
            return 1.0 if mean == 0 else 0.0
        ratio = abs(mean) / self.standard_error
        if ratio >= self.critical(_SMALLEST_P):
            return _SMALLEST_P
        from scipy.optimize import brentq

        # In the logarithm of p, since it may be tiny.
        return float(np.exp(brentq(lambda log_p: self.critical(float(np.exp(log_p))) - ratio, np.log(_SMALLEST_P), 0)))


def compare_systems(
    system: Sequence[ScoreCounts], baseline: Sequence[ScoreCounts], *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """The difference of the mean scores of two systems, each with counts for the same seeds in the same order."""
    from scipy.stats import t as student

    counts_SUC, baseline_SUC = _paired(system, baseline)
    seeds, units, _ = counts_SUC.shape
    rule = system[0].rule
    observed_S = _differences(rule, counts_SUC, baseline_SUC, np.ones((1, units)))[0]
    drawn_RS = np.concatenate(
        [_differences(rule, counts_SUC, baseline_SUC, weights) for weights in _draw_units(units, resamples, seed)]
    )
    variance = _variance(observed_S, drawn_RS, units)
    mean, error = float(observed_S.mean()), variance.standard_error
    width = error * variance.critical(1 - CONFIDENCE) if error else 0.0
    power = float(student.ppf(POWER, variance.freedom)) if error else 0.0
    return Difference(
        mean=mean,
        low=mean - width,
        high=mean + width,
        p=variance.p_value(mean),
        win_chance=float(((drawn_RS > 0) + 0.5 * (drawn_RS == 0)).mean()),
        detectable=width + power * error,
        standard_error=error,
        seeds=seeds,
        units=units,
    )


def multi_bootstrap(
    system: Sequence[ScoreCounts], baseline: Sequence[ScoreCounts], *, resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """(R,) the mean differences of resampled seeds and units, whose percentiles are the interval of MultiBERTs.

    It is for comparison with other programs: with few seeds it is too narrow.
    """
    counts_SUC, baseline_SUC = _paired(system, baseline)
    seeds, units, _ = counts_SUC.shape
    generator = np.random.default_rng((seed, 1))
    means = []
    for weights in _draw_units(units, resamples, seed):
        drawn_RS = _differences(system[0].rule, counts_SUC, baseline_SUC, weights)
        shares_RS = generator.multinomial(seeds, np.full(seeds, 1 / seeds), len(weights)) / seeds
        means.append((shares_RS * drawn_RS).sum(axis=1))
    return np.concatenate(means)


def _paired(system: Sequence[ScoreCounts], baseline: Sequence[ScoreCounts]) -> tuple[Floats, Floats]:
    """The counts of both systems as arrays; raises where they are not of the same seeds, units and metric."""
    check_paired(system, baseline, "seeds")
    every = [*system, *baseline]
    if len({(counts.rule, counts.metric) for counts in every}) > 1:
        raise InputError("the systems are scored by different metrics", fix="score both alike")
    if len({len(counts.counts_UC) for counts in every}) > 1:
        raise InputError("the systems were tested on different numbers of units", fix="test both on the same file")
    if len(every[0].counts_UC) < 2:
        raise InputError("the test set has a single unit", fix="test on two documents or more")
    arrays = [np.stack([counts.counts_UC for counts in part]) for part in (system, baseline)]
    return arrays[0], arrays[1]


def _differences(rule: Rule, counts_SUC: Floats, baseline_SUC: Floats, weights_RU: Floats) -> Floats:
    """(R, S) the differences of the scores on each test set."""
    both = np.concatenate([counts_SUC, baseline_SUC])
    scores = resampled_scores(rule, both, weights_RU)
    seeds = len(counts_SUC)
    differences: Floats = scores[:, :seeds] - scores[:, seeds:]
    return differences


def _draw_units(units: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Test sets as weights of the units, in portions that fit into memory; the same seed draws the same ones."""
    generator = np.random.default_rng((seed, 0))
    shares = np.full(units, 1 / units)
    portion = max(1, _CHUNK // units)
    for done in range(0, resamples, portion):
        drawn = generator.multinomial(units, shares, min(portion, resamples - done))
        yield drawn.astype(np.float64)


def _variance(observed_S: Floats, drawn_RS: Floats, units: int) -> _Variance:
    """The variance of the mean difference, from the seeds and from the resampled units."""
    seeds = len(observed_S)
    unbiased = units / (units - 1)  # a bootstrap sees this much less than the whole variance
    of_mean = unbiased * float(drawn_RS.mean(axis=1).var(ddof=1))
    if seeds == 1:
        return _Variance(seeds=0.0, units=of_mean, seed_freedom=1, unit_freedom=units - 1)
    of_each = unbiased * float(drawn_RS.var(axis=0, ddof=1).mean())
    joint = max(0.0, (of_each - of_mean) / (seeds - 1))
    return _Variance(
        seeds=float(observed_S.var(ddof=1)) / seeds,
        units=max(0.0, of_mean - joint),
        seed_freedom=seeds - 1,
        unit_freedom=units - 1,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for their number (Holm, 1979), in the order given."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
