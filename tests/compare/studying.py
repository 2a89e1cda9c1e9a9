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
)


def write_task(folder: Path, task: str = "ner") -> str:
    """Files of the almanac as `NAME=TRAIN:DEV:TEST`."""
    train, dev = write_files(task, folder / "first", train=40, dev=8)
    lines = dev.parent.joinpath("train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    test = folder / "test.jsonl"
    train.write_text("".join(lines[:24]), encoding="utf-8")
    test.write_text("".join(lines[24:]), encoding="utf-8")
    return f"{task}={train}:{dev}:{test}"


def small_study(corpus: Path, tasks: list[str], *recipes: str, study: str | None = None, **options: Any) -> Study:
    """A study whose runs take a moment."""
    settings = [*SMALLEST, *options.pop("settings", ())]
    finetuning = [*FINETUNING, *options.pop("finetuning", ())]
    chosen = {"budget": "1k tokens", "seeds": "2", **options}
    return load_study(
        study, recipes=recipes, settings=settings, data=[str(corpus)], tasks=tasks, finetuning=finetuning, **chosen
    )
