"""How much memory the head needs for a document, computed before anything large is made.

What enters are counts; what leaves is how many rows of each large matrix are computed at a time, so that a document of
any length stays within a budget. What cannot be cut (hidden states, the vectors of all kept mentions) must fit.
"""

from dataclasses import dataclass

from spanlab.errors import InputError

_NUMBER = 4  # bytes of a number in single precision
_PAIR = 64  # bytes that a pair takes in coarse scores: the score, its distance, its spelling, what is allowed
_MOST_CANDIDATES, _MOST_ROWS = 65536, 1024  # larger blocks gain nothing and spoil the caches
_GB = 1e9
_WORKING_SHARE = 0.5  # of what is left: the other half is for copies that torch makes


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a document and a head's settings come to."""

    tokens: int
    candidates: int
    mentions: int
    """Kept at most."""
    width: int
    """Of hidden states."""
    features: int
    """Of a mention's vector."""
    inner_width: int
    antecedents: int
    reach: int
    max_width: int

    @property
    def fixed_bytes(self) -> int:
        """Hidden states, candidates, and eight sets of vectors: what a round of refinement holds at a time."""
        hidden = 3 * self.tokens * self.width
        candidates = 16 * self.candidates
        vectors = 8 * self.mentions * self.features + 16 * self.mentions * self.antecedents
        return _NUMBER * (hidden + candidates + vectors)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How many rows of each large matrix are computed at a time."""

    candidates: int
    coarse: int
    fine: int


def plan_rows(sizes: Sizes, budget_gb: float) -> Rows:
    """Rows that stay within the budget; an error where not even one would."""
    left = budget_gb * _GB - sizes.fixed_bytes
    a_candidate = _NUMBER * (6 * sizes.inner_width + 4 * sizes.max_width)
    a_coarse = _PAIR * min(sizes.reach + _MOST_ROWS, sizes.mentions)
    a_fine = _NUMBER * sizes.antecedents * (3 * sizes.features + 5 * sizes.inner_width)
    rows = [int(_WORKING_SHARE * left / each) for each in (a_candidate, a_coarse, a_fine)]
    if min(rows) < 1:
        needed = (sizes.fixed_bytes + max(a_candidate, a_coarse, a_fine) / _WORKING_SHARE) / _GB
        cause = f"a document of {sizes.tokens:,} tokens needs {needed:.1f} GB, and memory_gb is {budget_gb:g}"
        raise InputError(cause, fix="cut the document, or give a larger memory_gb or a smaller mention_ratio")
    return Rows(
        candidates=min(rows[0], _MOST_CANDIDATES), coarse=min(rows[1], _MOST_ROWS), fine=min(rows[2], _MOST_ROWS)
    )
