"""Pruning against the plain definition: sort, walk, compare with everything taken so far."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spanlab.tasks.spans.pruning import without_conflicts

SPANS = st.lists(
    st.tuples(st.integers(5, 20), st.integers(0, 6), st.integers(-3, 3)).map(lambda t: (t[0], t[0] + t[1], t[2])),
    max_size=40,
)
Triple = tuple[int, int, int]


def arrays(spans: list[Triple]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, last, scores = (np.array([span[i] for span in spans], dtype=np.int64) for i in range(3))
    return first, last, scores.astype(np.float32)


def conflicts(one: Triple, other: Triple, kind: str) -> bool:
    (a, b, _), (c, d, _) = one, other
    return (a < c <= b < d or c < a <= d < b) if kind == "crossing" else (a <= d and c <= b)


@given(spans=SPANS, kind=st.sampled_from(["crossing", "overlapping"]), keep=st.none() | st.integers(0, 10))
def test_greedy_without_conflicts(spans: list[Triple], kind: str, keep: int | None) -> None:
    taken: list[int] = []
    for number in sorted(range(len(spans)), key=lambda number: -spans[number][2]):
        if keep is not None and len(taken) == keep:
            break
        if not any(conflicts(spans[number], spans[other], kind) for other in taken):
            taken.append(number)
    assert without_conflicts(*arrays(spans), conflict=kind, keep=keep).tolist() == sorted(taken)  # type: ignore[arg-type]
