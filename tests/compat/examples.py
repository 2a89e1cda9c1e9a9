"""The text and the labelled examples of `make_folders`: few words, short sentences, and rules that are soon learnt."""

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEOPLE = {"Anna": "She", "Peter": "He", "Mary": "She", "Ivan": "He"}
PLACES = ("Delft", "Oslo", "Rome", "Lima")
ACTS = {"sold the flour": "trade", "bought the nets": "trade", "crossed the river": "water", "swam at sea": "water"}
MOODS = ("glad", "sad", "tired")
READ = ["Anna sold the flour in Delft. She was glad.", "The mayor of Oslo crossed the river."]
FILLED = {
    "spanbert": "Anna sold [MASK] [MASK] in Delft. She was glad.",
    "bert": "Anna sold the [MASK] in Delft.",
    "roberta": "Anna sold <mask> flour in Delft.",
    "albert": "Anna sold [MASK] flour in Delft.",
    "electra": "Anna sold [MASK] flour in Delft.",
}
PRETRAINED_ON = ("wordpiece", "unigram")
"""The prepared corpora that are kept: those that the interrupted runs are about."""


@dataclass(frozen=True, kw_only=True)
class TaskFolder:
    """One fine-tuned model: what it is made with, and what it is asked."""

    name: str
    task: str
    file: str
    cases: list[tuple[str | None, Any]]
    """The task asked for, where there are several, and an input as in a JSON lines file."""
    model: str = "spanbert"
    settings: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    with_dev: bool = False
    added_to: str | None = None


def write_text(path: Path) -> Path:
    """Thirty documents of six sentences, a blank line between them."""
    draw = random.Random(1)
    lines = []
    for _ in range(30):
        for _ in range(3):
            name, place, act = draw.choice([*PEOPLE]), draw.choice(PLACES), draw.choice([*ACTS])
            lines += [f"{name} {act} in {place}. {PEOPLE[name]} was {draw.choice(MOODS)}."]
            lines += [f"The mayor of {draw.choice(PLACES)} {draw.choice([*ACTS])}."]
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_labelled(folder: Path) -> Path:
    """A file of 32 examples for each task, and the list of several tasks."""
    folder.mkdir()
    rows: dict[str, list[dict[str, Any]]] = {}
    for number, (name, place, act) in enumerate(itertools.product(PEOPLE, PLACES, ACTS)):
        if number % 2:
            continue
        for kind, row in examples(number, name, place, act).items():
            rows.setdefault(kind, []).append(row)
    for kind, each in rows.items():
        lines = "".join(json.dumps(row) + "\n" for row in each)
        (folder / f"{kind}.jsonl").write_text(lines, encoding="utf-8")
    listed = [
        {"name": name, "task": task, "train": f"{name}.jsonl"}
        for name, task in {"topics": "classification", "names": "ner", "alike": "similarity", "who": "qa"}.items()
    ]
    (folder / "tasks.yaml").write_text(json.dumps(listed), encoding="utf-8")
    return folder


def examples(number: int, name: str, place: str, act: str) -> dict[str, dict[str, Any]]:
    """A row for each file, about one thing that somebody did somewhere."""
    first, mood = f"{name} {act} in {place}.", MOODS[number % 3]
    text = f"{first} {PEOPLE[name]} was {mood}."
    mayor = f"The mayor of {place} {act}."
    begin = text.index(place)
    who = {"start": 0, "end": len(name), "label": "person"}
    where = {"start": begin, "end": begin + len(place), "label": "place"}
    pronoun = [len(first) + 1, len(first) + 1 + len(PEOPLE[name])]
    relation = {"head": 0, "tail": 1, "label": "traded in" if ACTS[act] == "trade" else "was in"}
    other = text if number % 4 else mayor
    inside = {"start": 13, "end": 13 + len(place), "label": "place"}
    role = {"start": 0, "end": 13 + len(place), "label": "role"}
    return {
        "topics": {"text": text, "label": ACTS[act]},
        "topic-sets": {"text": text, "labels": [ACTS[act]] if mood == "sad" else [ACTS[act], mood]},
        "alike": {"text_a": text, "text_b": other, "score": 5.0 if number % 4 else 0.0},
        "same": {"text_a": text, "text_b": other, "label": "same" if number % 4 else "different"},
        "names": {"text": text, "spans": [who, where]},
        "nested": {"text": mayor, "spans": [role, inside]},
        "who": {"question": f"Who {act}?", "context": text, "answers": [{"text": name, "start": 0}]},
        "clusters": {"text": text, "clusters": [[[0, len(name)], pronoun]]},
        "pairs": {"text": text, "entities": [who, where], "relations": [relation]},
        "sentences": {"sentences": [first, f"{PEOPLE[name]} was {mood}.", mayor], "labels": [1, 0, 0]},
        "targets": {"source": text, "target": f"{name} was {mood}."},
    }


_TEXT = READ[0]
_WHO = {"start": 0, "end": 4, "label": "person"}
_WHERE = {"start": 23, "end": 28, "label": "place"}
_ABOUT_TEXT: list[tuple[str | None, Any]] = [(None, {"text": text}) for text in READ]
_TWO: list[tuple[str | None, Any]] = [(None, {"text_a": _TEXT, "text_b": other}) for other in READ]
_ASKED: list[tuple[str | None, Any]] = [
    (None, {"question": "Who sold the flour?", "context": _TEXT}),
    (None, {"question": "Who crossed the river?", "context": "Peter crossed the river in Rome. He was tired."}),
]
_GIVEN: list[tuple[str | None, Any]] = [(None, {"text": _TEXT, "entities": [_WHO, _WHERE]})]
_NARROW = {"inner_width": 8, "span": {"max_width": 6, "width_features": 4}}
_SENTENCES: list[tuple[str | None, Any]] = [
    (None, {"sentences": ["Anna sold the flour in Delft.", "She was glad.", "The mayor of Oslo swam at sea."]})
]
_SLOW = {"lr": 1e-3, "epochs": 40.0}
"""For heads that are told to learn ten or twenty times as fast as the encoder."""
_COREF = {
    "coref": "small",
    "layers": {
        "inner_width": 8,
        "property_width": 4,
        "dropout": 0.0,
        "mention_ratio": 0.4,
        "span": {"max_width": 4, "width_features": 4},
    },
}
_SEVERAL: list[tuple[str | None, Any]] = [
    ("topics", {"text": _TEXT}),
    ("names", {"text": _TEXT}),
    ("alike", {"text_a": _TEXT, "text_b": READ[1]}),
    ("who", _ASKED[0][1]),
]
_WRITING = [
    TaskFolder(
        name=f"generation-{prefix}",
        task="generation",
        file="targets.jsonl",
        cases=[(None, {"source": _TEXT})],
        model="gpt",
        settings={"max_new_tokens": 12, "beams": 2, "prefix": prefix, "data": {"length": 64}},
    )
    for prefix in ("both", "causal")
]
TASKS = [
    TaskFolder(name="classification", task="classification", file="topics.jsonl", cases=_ABOUT_TEXT),
    TaskFolder(
        name="several-labels",
        task="classification",
        file="topic-sets.jsonl",
        cases=_ABOUT_TEXT,
        with_dev=True,
        training={"epochs": 80.0},
    ),
    TaskFolder(name="similarity", task="similarity", file="alike.jsonl", cases=_TWO),
    TaskFolder(name="similarity-bi", task="similarity", file="alike.jsonl", cases=_TWO, settings={"head": "bi"}),
    TaskFolder(
        name="similarity-labels",
        task="similarity",
        file="same.jsonl",
        cases=_TWO,
        model="bert",
        training={"epochs": 80.0},
    ),
    TaskFolder(name="ner-tag", task="ner", file="names.jsonl", cases=_ABOUT_TEXT),
    TaskFolder(
        name="ner-span", task="ner", file="nested.jsonl", cases=_ABOUT_TEXT, settings={"head": "span", **_NARROW}
    ),
    TaskFolder(name="qa-pointers", task="qa", file="who.jsonl", cases=_ASKED, settings={"n_best": 2}, with_dev=True),
    TaskFolder(
        name="qa-span", task="qa", file="who.jsonl", cases=_ASKED, settings={"head": "span", "n_best": 2, **_NARROW}
    ),
    TaskFolder(
        name="coref", task="coref", file="clusters.jsonl", cases=_ABOUT_TEXT[:1], settings=_COREF, training=_SLOW
    ),
    TaskFolder(
        name="relation-markers",
        task="relation",
        file="pairs.jsonl",
        cases=_GIVEN,
        settings={"head": "markers"},
        training={"lr": 0.005, "epochs": 120.0, "schedule": "constant", "lr_factors": {"heads": 2.0}},
    ),
    TaskFolder(
        name="relation-pairs",
        task="relation",
        file="pairs.jsonl",
        cases=_GIVEN,
        settings={"head": "pairs", **_NARROW},
        training=_SLOW,
    ),
    TaskFolder(
        name="relation-joint",
        task="relation",
        file="pairs.jsonl",
        cases=_ABOUT_TEXT[:1],
        settings={"head": "joint", **_NARROW},
        training=_SLOW,
    ),
    TaskFolder(
        name="summarisation",
        task="summarisation",
        file="sentences.jsonl",
        cases=_SENTENCES,
        settings={"inter_layers": 1},
        training=_SLOW,
    ),
    TaskFolder(
        name="summarisation-marker",
        task="summarisation",
        file="sentences.jsonl",
        cases=_SENTENCES,
        settings={"sentence_vector": "marker", "inter_layers": 0},
        training=_SLOW,
    ),
    *_WRITING,
    TaskFolder(name="classification-elmo", task="classification", file="topics.jsonl", cases=_ABOUT_TEXT, model="elmo"),
    TaskFolder(name="qa-xlnet", task="qa", file="who.jsonl", cases=_ASKED, model="xlnet", settings={"n_best": 2}),
    TaskFolder(
        name="ner-electra",
        task="ner",
        file="names.jsonl",
        cases=_ABOUT_TEXT,
        model="electra",
        training={"lr": 0.02, "epochs": 60.0},
    ),
    TaskFolder(
        name="lora",
        task="classification",
        file="topics.jsonl",
        cases=_ABOUT_TEXT,
        model="bert",
        settings={"tuning": {"lora": 4}},
        training={"lr": 0.02},
    ),
    TaskFolder(name="multitask", task="multitask", file="tasks.yaml", cases=_SEVERAL),
    TaskFolder(
        name="added",
        task="classification",
        file="topic-sets.jsonl",
        cases=[*_SEVERAL, ("again", {"text": _TEXT})],
        added_to="multitask",
        settings={"tuning": {"lora": 2}},
    ),
]
