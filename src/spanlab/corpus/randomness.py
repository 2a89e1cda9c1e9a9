"""Random numbers that are functions, not state: (seed, purpose, epoch, index) in, 64-bit draws out.

A sample's key is mixed from the seed, what the draws are for, the epoch and the sample's index; its k-th draw is
`mix(key + k·G)` (splitmix64). So an example is the same whatever the batch, worker, rank or restart, and a batch's
draws are a handful of numpy passes: no generator is created, carried or saved. The price is that this is no
cryptographic generator, and that callers index the draws: by sample, span or position, never by the order in which
code happens to run.
"""

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spanlab.arrays import Integers

Draws = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_WORD = (1 << 64) - 1


def mix(values: Draws) -> Draws:
    """The finaliser of splitmix64: a bijection of 64-bit words whose every output bit depends on every input bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@lru_cache(maxsize=256)
def _purpose_key(seed: int, purpose: str) -> int:
    digest = hashlib.blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def sample_keys(*, seed: int, purpose: str, epoch: ArrayLike, index: ArrayLike) -> Draws:
    """(B,) keys of samples; `epoch` and `index` are numbers or (B,) arrays, `purpose` keeps uses of a seed apart."""
    base = np.uint64(_purpose_key(seed, purpose))
    epochs, indices = np.atleast_1d(_words(epoch)), np.atleast_1d(_words(index))
    return mix(mix(epochs * GOLDEN + base) + indices * GOLDEN)


def _words(values: ArrayLike) -> Draws:
    array = np.asarray(values)
    if array.dtype == np.uint64:
        return array
    return array.astype(np.int64).astype(np.uint64)


def draws(keys: Draws, count: int, *, first: int = 0) -> Draws:
    """(…, count) draws `first` to `first + count - 1` of each key."""
    steps = np.arange(first + 1, first + 1 + count, dtype=np.uint64) * GOLDEN
    return mix(keys[..., None] + steps)


def draw(keys: Draws, index: int) -> Draws:
    """Draw `index` of each key, in the shape of `keys`."""
    return mix(keys + np.uint64((index + 1) * int(GOLDEN) & _WORD))


def draw_at(keys: Draws, indices: Integers) -> Draws:
    """For each key the draw with its index in `indices`: draws keyed by a position, not by the order of evaluation."""
    return mix(keys + (indices.astype(np.uint64) + np.uint64(1)) * GOLDEN)


def uniform(values: Draws) -> NDArray[np.float64]:
    """Draws as numbers in [0, 1), from their upper 53 bits."""
    return (values >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(values: Draws, bound: ArrayLike) -> Integers:
    """Draws as whole numbers in [0, bound), from their upper 32 bits; `bound` must stay under 2³².

    No number is favoured by more than bound / 2³² of its share.
    """
    bounds = _words(bound)
    return (((values >> np.uint64(32)) * bounds) >> np.uint64(32)).astype(np.int64)
