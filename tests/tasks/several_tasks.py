"""Four small tasks over a handful of sentences, and the list that names them."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.tasks.almanac_files import write_topics

NAMES = ("Mary", "Peter", "Anna", "Ivan")
ACTS = ("won the race", "crossed the river", "read a book", "sang again")


def write_several(folder: Path) -> Path:
    """topics (classification), names (ner), alike (similarity) and who (qa) under `folder`, and `tasks.yaml`."""
    write_topics(folder / "topics")
    rows: dict[str, list[dict[str, Any]]] = {"names": [], "alike": [], "who": []}
    for number, (name, act) in enumerate((name, act) for name in NAMES for act in ACTS):
        text = f"today {name} {act}"
        rows["names"].append({"text": text, "spans": [{"start": 6, "end": 6 + len(name), "label": "person"}]})
        other = text if number % 2 else "the river rose"
        rows["alike"].append({"text_a": text, "text_b": other, "score": 5.0 * (number % 2)})
        answer = {"text": name, "start": 6}
        rows["who"].append({"question": f"who {act}?", "context": text, "answers": [answer]})
    for task, examples in rows.items():
        (folder / task).mkdir(parents=True, exist_ok=True)
        for part, chosen in (("train", examples), ("dev", examples[::4])):
            lines = "".join(json.dumps(row) + "\n" for row in chosen)
            (folder / task / f"{part}.jsonl").write_text(lines, encoding="utf-8")
    return write_list(folder, listed())


def listed(**changes: Any) -> list[dict[str, Any]]:
    """The entries; `changes` go over that of the names."""
    kinds = {"topics": "classification", "names": "ner", "alike": "similarity", "who": "qa"}
    entries = [
        {"name": name, "task": task, "train": f"{name}/train.jsonl", "dev": f"{name}/dev.jsonl"}
        for name, task in kinds.items()
    ]
    entries[1] |= changes
    return entries


def write_list(folder: Path, entries: list[dict[str, Any]]) -> Path:
    path = folder / "tasks.yaml"
    path.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    return path
