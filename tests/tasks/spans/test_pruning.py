"""Pruning against the plain definition: sort, walk, compare with everything taken so far."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spanlab.tasks.spans.pruning import best_of_groups, without_conflicts

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


@given(
    spans=st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3)), max_size=30),
    keep=st.lists(st.integers(0, 6), min_size=4, max_size=4),
)
def test_best_of_groups(spans: list[tuple[int, int]], keep: list[int]) -> None:
    expected = []
    for group, count in enumerate(keep):
        members = [number for number, span in enumerate(spans) if span[0] == group]
        expected += sorted(members, key=lambda number: -spans[number][1])[:count]
    groups = np.array([span[0] for span in spans], dtype=np.int64)
    scores = np.array([span[1] for span in spans], dtype=np.float32)
    assert best_of_groups(scores, groups, np.array(keep)).tolist() == sorted(expected)
