"""Random whole units up to a budget: BERT's subword and whole-word masking.

Units are taken in random order; one that would exceed the budget is passed over and the next is tried, as BERT's own
code does. With units of one token that is a plain draw without replacement.

Shapes: B blocks, U units in a row, W units of the longest block.
"""

import numpy as np

from spanlab.arrays import Flags, Integers
from spanlab.corpus.randomness import Draws
from spanlab.corruption.units import Units


def pick_random_units(units: Units, keys: Draws, budget: Integers, barred: Flags | None = None) -> Flags:
    """(U,) the units picked in each block; `barred` (U,) are never picked. The budget (B,) is in tokens."""
    if not len(units.starts):
        return np.zeros(0, bool)
    order_BW = np.argsort(units.random_values(keys), axis=1)
    lengths_BW = np.zeros(order_BW.shape, np.int64)
    lengths_BW[units.blocks, units.indices_in_block] = (
        units.lengths if barred is None else np.where(barred, 0, units.lengths)
    )
    picked_BW = _take_in_order(np.take_along_axis(lengths_BW, order_BW, axis=1), budget)
    back_BW = np.zeros_like(picked_BW)
    np.put_along_axis(back_BW, order_BW, picked_BW, axis=1)
    picked: Flags = back_BW[units.blocks, units.indices_in_block]
    return picked


def _take_in_order(lengths_BW: Integers, budget_B: Integers) -> Flags:
    """Which units fit when they are tried one after the other; length 0 marks a unit that cannot be picked."""
    present_BW = lengths_BW > 0
    taken_BW = present_BW & (np.cumsum(lengths_BW, axis=1) <= budget_B[:, None])
    # Behind the first that does not fit, smaller ones may: at most one more for every token still to be filled.
    left_B = budget_B - np.where(taken_BW, lengths_BW, 0).sum(axis=1)
    while True:
        fits_BW = present_BW & ~taken_BW & (lengths_BW <= left_B[:, None])
        rows = np.flatnonzero(fits_BW.any(axis=1))
        if not len(rows):
            return taken_BW
        chosen = fits_BW[rows].argmax(axis=1)
        taken_BW[rows, chosen] = True
        left_B[rows] -= lengths_BW[rows, chosen]
