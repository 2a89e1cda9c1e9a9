"""Labelled files of the almanac, cut short so that a run over them takes a second."""

import json
from pathlib import Path

from spanlab.samples import load
from spanlab.samples.export import Selection, export


def write_files(task: str, folder: Path, *, train: int = 24, dev: int = 8) -> tuple[Path, Path]:
    """The first examples of the train and dev splits, as JSON lines."""
    export(load(), task, folder, Selection(language="en", format="jsonl"))
    for name, count in (("train", train), ("dev", dev)):
        path = folder / f"{name}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()[:count]
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return folder / "train.jsonl", folder / "dev.jsonl"


def write_topics(folder: Path) -> tuple[Path, Path]:
    """Texts that one word decides, in two topics."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [("the river rose again", "water"), ("she won the race", "sport")]
    for name, times in (("train", 16), ("dev", 4)):
        rows = [
            {"id": f"{name}-{n}-{label}", "text": f"{text} {'and ' * (n % 5)}", "label": label}
            for n in range(times)
            for text, label in texts
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder / "train.jsonl", folder / "dev.jsonl"
