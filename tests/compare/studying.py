"""Studies of the smallest models on a small corpus, for tests of all their parts."""

from pathlib import Path
from typing import Any

from spanlab.compare.config import Study, load_study
from tests.pretraining.making import SMALLEST
from tests.tasks.almanac_files import write_files

FINETUNING = (
    "training.steps=3",
    "training.batch_size=4",
    "training.precision=fp32",
    "training.device=cpu",
    "head=span",
    "training.lr=0.01",
)


def write_task(folder: Path) -> str:
    """Entities of the almanac as `ner=TRAIN:DEV:TEST`."""
    train, dev = write_files("ner", folder, train=32)
    lines = train.read_text(encoding="utf-8").splitlines(keepends=True)
    test = folder / "test.jsonl"
    train.write_text("".join(lines[:16]), encoding="utf-8")
    test.write_text("".join(lines[16:]), encoding="utf-8")
    return f"ner={train}:{dev}:{test}"


def small_study(corpus: Path, tasks: list[str], *recipes: str, **options: Any) -> Study:
    """A study of MLM with and without SBO, whose runs take a moment; `options` are those of `load_study`."""
    chosen = {
        "settings": SMALLEST,
        "data": [str(corpus)],
        "finetuning": FINETUNING,
        "budget": "500 tokens",
        "seeds": "2",
        **options,
    }
    grid = () if recipes or options.get("name") else ("objectives.sbo=0,1",)
    name = chosen.pop("name", None)
    return load_study(name, recipes=recipes or (() if name else ("spanbert",)), tasks=tasks, **{"grid": grid, **chosen})
