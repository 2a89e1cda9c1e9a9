"""How an exported folder differs from the model in torch: answers, scores and seconds, on the same inputs.

Both sides predict each input in turn and then all together, with the same number of threads.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from spanlab.inference.predictor import Predictor

_TIMES = 3
"""Of several measurements of a side the fastest counts: what slows one down is not the model."""
_TIMED = 32
_RUNNERS_UP = "nbest"
"""The answers that were not given do not count."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How the answers of a task agree."""

    inputs: int
    identical: float
    """The share of inputs whose labels, texts and offsets are all the same."""
    largest_difference: float
    """Of two scores at the same place of identical answers; of embeddings, of two components."""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """An exported model beside the same in torch."""

    by_task: dict[str, Agreement] = field(default_factory=dict)
    """And `embedding`."""
    torch_seconds: float
    """For a text embedded alone, and again with the other texts."""
    onnx_seconds: float
    torch_bulk_seconds: float
    onnx_bulk_seconds: float
    threads: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(
    torch_side: Predictor,
    onnx_side: Predictor,
    inputs: Mapping[str, Sequence[Mapping[str, Any]]],
    texts: Sequence[str],
    *,
    threads: int,
) -> Parity:
    """Compare on `inputs` by task, and on texts that are embedded."""
    sides, texts = (torch_side, onnx_side), list(texts)
    by_task = {}
    for task, items in inputs.items():
        results = (side.predict(items, task=task) for side in sides)
        by_task[task] = _agreement(*([result.to_dict() for result in part] for part in results))
    by_task["embedding"] = _vector_agreement(*(side.encode(texts) for side in sides))
    timed = texts[:_TIMED]
    alone = _fastest_in_turn(*(partial(_encode_each, side, timed) for side in sides))
    bulk = _fastest_in_turn(*(partial(side.encode, texts) for side in sides))
    return Parity(
        by_task=by_task,
        torch_seconds=alone[0] / max(1, len(timed)),
        onnx_seconds=alone[1] / max(1, len(timed)),
        torch_bulk_seconds=bulk[0] / max(1, len(texts)),
        onnx_bulk_seconds=bulk[1] / max(1, len(texts)),
        threads=threads,
    )


def _encode_each(side: Predictor, texts: Sequence[str]) -> None:
    for text in texts:
        side.encode(text)


def _agreement(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> Agreement:
    identical, difference = 0, 0.0
    for result, other in zip(ours, theirs, strict=True):
        plain, scores = _split(result)
        other_plain, other_scores = _split(other)
        if plain == other_plain and scores.keys() == other_scores.keys():
            identical += 1
            difference = max([difference, *(abs(scores[key] - other_scores[key]) for key in scores)])
    return Agreement(inputs=len(ours), identical=identical / max(1, len(ours)), largest_difference=difference)


def _vector_agreement(ours: Any, theirs: Any) -> Agreement:  # noqa: ANN401 (arrays)
    cosines = (ours * theirs).sum(axis=-1)
    return Agreement(
        inputs=len(ours),
        identical=float(np.mean(cosines > 0.9999)) if len(ours) else 1.0,
        largest_difference=float(np.abs(ours - theirs).max(initial=0.0)),
    )


def _split(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """What of a result is plain, and its scores, each by its place."""
    leaves = dict(_leaves(result, ""))
    scores = {key: value for key, value in leaves.items() if isinstance(value, float)}
    return {key: value for key, value in leaves.items() if key not in scores}, scores


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 (anything a result holds)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key != _RUNNERS_UP:
                yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        yield f"{path}#", len(value)
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _fastest_in_turn(*calls: Callable[[], object]) -> list[float]:
    """The fewest seconds of each, measured in turn, so that what else runs slows all of them down."""
    for call in calls:
        call()
    seconds = [float("inf")] * len(calls)
    for _ in range(_TIMES):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            seconds[index] = min(seconds[index], time.perf_counter() - start)
    return seconds
