"""Small models that are trained in a moment and sure of what they say."""

from pathlib import Path
from typing import Any

import spanlab

NAMES, PLACES = ("ada", "grace", "alan", "edsger"), ("london", "paris", "delft", "boston")
CERTAIN = {"epochs": 30, "lr": 5e-3, "batch_size": 16, "eval_every": 10_000}


def entity_rows() -> list[dict[str, Any]]:
    """Sentences in which every name is a person and every place a place."""
    return [entity_row(name, place) for name in NAMES for place in PLACES]


def entity_row(name: str, place: str) -> dict[str, Any]:
    text = f"{name} lived in {place} ."
    start = text.index(place)
    return {
        "text": text,
        "spans": [
            {"start": 0, "end": len(name), "label": "PER"},
            {"start": start, "end": start + len(place), "label": "LOC"},
        ],
    }


def train_entities(base: Path, out: Path, **settings: Any) -> Path:
    """A model of entities: a run folder."""
    spanlab.finetune("ner", model=base, train=entity_rows(), out=out, training=CERTAIN, **settings)
    return out


def train_classes(base: Path, out: Path) -> Path:
    """A model that tells persons from places."""
    rows = [{"text": f"this is {word}", "label": "person" if word in NAMES else "place"} for word in NAMES + PLACES]
    spanlab.finetune("classification", model=base, train=rows * 4, out=out, training={**CERTAIN, "epochs": 10})
    return out
