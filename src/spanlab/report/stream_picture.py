"""XLNet's two streams over one order of prediction: who sees whom, as an SVG.

What enters are tokens and, for each, when it is predicted (its turn, from 1) or None if it is given; what leaves are
two squares. In the content stream a predicted token sees what comes before it in the order and itself; in the query
stream, which predicts it, the same without itself. Given tokens are seen by all.
"""

from collections.abc import Sequence

import numpy as np

from spanlab.arrays import Flags
from spanlab.report.svg import BLUE, FAINT, PALE, YELLOW, box, picture, width_of, words

_CELL, _TOP = 26.0, 66.0


def visible_pairs(turns: Sequence[int | None], *, itself: bool) -> Flags:
    """(T, T) whether the token of a row sees that of a column; `itself`: in the content stream."""
    place = np.array([0 if turn is None else turn for turn in turns])
    seen: Flags = place[None, :] < place[:, None]
    seen |= place[None, :] == 0
    return seen | np.eye(len(place), dtype=bool) if itself else seen


def draw_streams(tokens: Sequence[str], turns: Sequence[int | None]) -> str:
    """Both streams side by side."""
    side = max(width_of(token, size=12) for token in tokens) + 34
    square = _CELL * len(tokens)
    parts = [
        *_square(16, side, "content stream: what a place holds", tokens, turns, itself=True),
        *_square(46 + side + square, side, "query stream: what predicts it", tokens, turns, itself=False),
    ]
    return picture(2 * (side + square) + 70, _TOP + side + square, parts, title="The two streams of XLNet")


def _square(
    left: float, side: float, title: str, tokens: Sequence[str], turns: Sequence[int | None], *, itself: bool
) -> list[str]:
    seen = visible_pairs(turns, itself=itself)
    top = _TOP + side - 20
    parts = [words(left, 24, title, size=14)]
    for row, token in enumerate(tokens):
        asks = itself or turns[row] is not None
        middle = (row + 0.5) * _CELL
        name = token if turns[row] is None else f"{token} {_turn(turns[row])}"
        parts.append(words(left + side - 6, top + middle + 4, name, size=12, anchor="end"))
        parts.append(words(left + side + middle + 4, top - 6, name, size=12, turned=True))
        for column in range(len(tokens)):
            own = row == column
            fill = (YELLOW if own else BLUE) if asks and seen[row, column] else PALE
            parts.append(box(left + side + column * _CELL, top + row * _CELL, _CELL - 2, _CELL - 2, fill=fill))
        if not asks:
            parts.append(words(left + side + 8, top + middle + 4, "given: nothing to predict", size=11, colour=FAINT))
    return parts


def _turn(turn: int | None) -> str:
    return "①②③④⑤⑥⑦⑧⑨⑩⑪⑫"[turn - 1] if turn is not None and turn <= 12 else f"({turn})"
