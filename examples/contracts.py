"""Contracts: extract parties, dates, amounts and whole clauses, nested in each other.

    python examples/contracts.py [MODEL]

Clauses contain parties and dates, so entities nest: `head=span` scores every span of up to 30 words. The contracts are
generated from the patterns below, in which `[LABEL text]` marks an entity; the test uses names that are not in the
training data.
"""

import json
import random
import re
import tempfile
from pathlib import Path
from typing import Any

from packaged_model import model_of_command_line

import spanlab

PATTERNS = [
    "This agreement is made on [DATE {date}] between [PARTY {one}] and [PARTY {two}].",
    "[CLAUSE-PAYMENT [PARTY {two}] shall pay [AMOUNT {amount}] to [PARTY {one}] by [DATE {date}].]",
    "[CLAUSE-TERM Either party may end this agreement with {days} days of notice.]",
    "[CLAUSE-LAW This agreement is governed by the law of {place}.]",
    "The goods are described in the annex, which both parties have signed.",
]
COMPANIES = ["Norbert Mills", "Ashby Freight", "Lindqvist Paper", "Corvo Foods", "Tamar Glass", "Hollis Energy"]
UNSEEN = ["Marlow Textiles", "Quill Shipping", "Okafor Steel"]
PLACES = ["England", "France", "Norway", "Ontario", "Kenya"]
_MARK = re.compile(r"\[([A-Z-]+) |\]")


def unmark(marked: str) -> dict[str, Any]:
    """Convert a marked text to an example: the text without marks, and spans in characters."""
    text, done, spans = "", 0, []
    open_spans: list[tuple[int, str]] = []
    for mark in _MARK.finditer(marked):
        text, done = text + marked[done : mark.start()], mark.end()
        if mark[1]:
            open_spans.append((len(text), mark[1]))
        else:
            start, label = open_spans.pop()
            spans.append({"start": start, "end": len(text), "label": label})
    return {"text": text + marked[done:], "spans": spans}


def write_contracts(path: Path, companies: list[str], count: int, seed: int) -> Path:
    """Write JSON lines of contracts between invented parties."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            one, two = draw.sample([f"{name} {draw.choice(['Ltd', 'GmbH', 'Inc'])}" for name in companies], 2)
            date = f"{draw.randint(1, 28)} {draw.choice(['March', 'June', 'October'])} {draw.randint(2018, 2026)}"
            words = {"date": date, "amount": f"{draw.randint(2, 90)},000 euros", "days": draw.choice([14, 30, 60, 90])}
            marked = " ".join(draw.sample(PATTERNS, 4))
            example = unmark(marked.format(one=one, two=two, place=draw.choice(PLACES), **words))
            file.write(json.dumps(example) + "\n")
    return path


def main(model: str, *, examples: int = 160, epochs: float = 8, lr: float = 3e-4) -> dict[str, float]:
    """Train, score on unseen parties, and show one contract."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = write_contracts(folder / "train.jsonl", COMPANIES, examples, seed=1)
        dev = write_contracts(folder / "dev.jsonl", COMPANIES, 16, seed=2)
        test = write_contracts(folder / "test.jsonl", UNSEEN, 40, seed=3)
        training = {"epochs": epochs, "lr": lr, "batch_size": 16}
        span = {"max_width": 30}
        run = spanlab.finetune(
            "ner", model=model, train=train, dev=dev, out=folder / "run", head="span", span=span, training=training
        )
        reader = spanlab.load(run.model)
        scores = dict(reader.evaluate(str(test)).metrics)
        shown = reader.predict(json.loads(test.read_text(encoding="utf-8").splitlines()[0])["text"])[0]
    print(", ".join(f"{metric} {value:.1f}" for metric, value in scores.items()))
    for entity in shown.spans:
        print(f"  {entity.label:<15} {entity.text}")
    return scores


if __name__ == "__main__":
    main(model_of_command_line())
