"""The front matter of a model card, as the Hugging Face hub reads it: what a model is of, made of, and worth.

https://huggingface.co/docs/hub/model-cards has the keys. Scores go into `model-index`, from which the hub lists a model
under its data. A licence that is not known is said to be unknown: nobody but the owner of the data can give one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spanlab.errors import InputError
from spanlab.models.box import bundled_model
from spanlab.strict_parsing import parse_yaml

UNKNOWN_LICENCE = "unknown"
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_STRANGE = re.compile(r"[^\w.,+ /-]+|-{2,}|\n")
_LONGEST = 96


@dataclass(frozen=True, kw_only=True)
class ScoredTask:
    """The scores of a model for one task on one data set, for `model-index`."""

    task: str
    """The hub's name of the task, or ours where it has none."""
    dataset: str
    metrics: Mapping[str, float]


def front_matter(
    *,
    name: str,
    tags: Sequence[str],
    base: str | None = None,
    datasets: Sequence[str] = (),
    pipeline_tag: str | None = None,
    scores: Sequence[ScoredTask] = (),
) -> str:
    """The front matter with its marks.

    Args:
        name: of the model, for its scores.
        tags: what it is found by.
        base: the model it was trained from; None: random weights.
        datasets: the names of what it was trained on.
        pipeline_tag: the hub's name of what it does.
        scores: on held-out data.
    """
    facts: dict[str, Any] = {"license": _licence_of(base), "library_name": "spanlab"}
    hub_id = None if base is None else _hub_id_of(base)
    facts |= {} if hub_id is None else {"base_model": hub_id}
    facts |= {"datasets": list(dict.fromkeys(map(_tame, datasets)))} if datasets else {}
    facts |= {} if pipeline_tag is None else {"pipeline_tag": pipeline_tag}
    facts["tags"] = list(dict.fromkeys(["spanlab", *map(_tame, tags)]))
    facts |= model_index(name, scores)
    return f"---\n{yaml.safe_dump(facts, sort_keys=False, allow_unicode=True).strip()}\n---"


def model_index(name: str, scores: Sequence[ScoredTask]) -> dict[str, Any]:
    """The key under which the hub finds scores, with what it holds; nothing if there are none."""
    results = [_result(scored) for scored in scores if any(map(math.isfinite, scored.metrics.values()))]
    return {"model-index": [{"name": _tame(name), "results": results}]} if results else {}


def _result(scored: ScoredTask) -> dict[str, Any]:
    dataset = _tame(scored.dataset)
    metrics = [
        {"type": metric, "name": metric, "value": round(value, 4)}
        for metric, value in scored.metrics.items()
        if math.isfinite(value)
    ]
    return {"task": {"type": scored.task}, "dataset": {"type": dataset, "name": dataset}, "metrics": metrics}


def _hub_id_of(model: str) -> str | None:
    """The Hugging Face id of a model; None for a folder, and for one that is not on the hub."""
    bundled = bundled_model(model)
    if bundled is not None:
        return bundled.hub_id
    return model if not Path(model).exists() and _HUB_ID.fullmatch(model) else None


def _licence_of(model: str | None) -> str:
    """The licence that the card of a model in the box or in a folder says."""
    bundled = None if model is None else bundled_model(model)
    if bundled is not None:
        return bundled.licence
    for folder in [] if model is None else [Path(model), Path(model) / "model"]:
        licence = read_front_matter(folder / "README.md").get("license")
        if isinstance(licence, str) and licence:
            return _tame(licence)
    return UNKNOWN_LICENCE


def read_front_matter(card: Path) -> dict[str, Any]:
    """The facts of a card; empty without a card, or where they cannot be read."""
    try:
        front = _FRONT.match(card.read_text(encoding="utf-8"))
        facts = {} if front is None else parse_yaml(front[1])[0]
    except (OSError, UnicodeDecodeError, InputError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _tame(text: str) -> str:
    """A text on one line without what YAML, HTML or the marks of the front matter are made of."""
    return _STRANGE.sub("-", text).strip()[:_LONGEST] or "-"
