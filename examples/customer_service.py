"""Customer service: find the FAQ entry that a question is about, and extract the answer from it.

    python examples/customer_service.py [MODEL]

The entry is found by its embedding, the answer by a question answering model. That model is trained here on those of
the almanac's questions that have an answer, so it always gives one; with a model of your own, the function `answer` is
all you need.
"""

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from packaged_model import model_of_command_line

import spanlab
from spanlab.inference.predictor import Predictor
from spanlab.samples import load
from spanlab.samples.export import Selection, export

FAQ = [
    "Orders are sent within two working days. Delivery takes three to five days; islands take up to nine days.",
    "You can return anything within 30 days. Sale items can be exchanged but not refunded.",
    "We take cards, bank transfer and cash on delivery. Cash on delivery costs an extra 4 euros.",
    "The warranty on all lamps is five years. Batteries are covered for six months.",
    "Our shop in Harbour Street is open from nine to six, and on Saturdays until noon.",
    "To change your password, open the account page and choose Security. The link we send is valid for one hour.",
]
QUESTIONS = [
    "How long does delivery to an island take?",
    "Until when can I send something back?",
    "What does cash on delivery cost?",
    "How long is the guarantee for lamps?",
    "When does the shop close on Saturday?",
    "How long can I use the password link?",
]


class Reply(NamedTuple):
    """The entry a question is about, and the answer in it; "" if there is none."""

    entry: str
    answer: str
    score: float


def learn_to_answer(model: str, folder: Path, **training: float) -> Predictor:
    """Train a question answering model on the English questions of the almanac that have an answer."""
    export(load(), "qa", folder / "questions", Selection(language="en", format="jsonl"))
    train, dev = (answered(folder / "questions" / f"{split}.jsonl") for split in ("train", "dev"))
    settings = {"epochs": 5, "lr": 2e-4, "batch_size": 16, **training}
    return spanlab.load(
        spanlab.finetune("qa", model=model, train=train, dev=dev, out=folder / "run", training=settings).model
    )


def answered(path: Path) -> Path:
    """Leave out the questions without an answer: the entry that is found for a question has one."""
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(row for row in rows if json.loads(row)["answers"]), encoding="utf-8")
    return path


def answer(question: str, searcher: Predictor, reader: Predictor, entries: list[str]) -> Reply:
    """Retrieve an entry, then extract the answer."""
    entry = entries[int(np.argmax(searcher.encode(entries) @ searcher.encode(question)))]
    found = reader.predict((question, entry))[0]
    return Reply(entry, found.answer, found.score)


def main(model: str, questions: list[str], **training: float) -> list[Reply]:
    """Answer all questions."""
    searcher = spanlab.load(model)
    with tempfile.TemporaryDirectory() as folder:
        reader = learn_to_answer(model, Path(folder), **training)
        replies = [answer(question, searcher, reader, FAQ) for question in questions]
    for question, reply in zip(questions, replies, strict=True):
        print(f"{question}\n  {reply.answer or 'no answer'} ({reply.score:.0%}), from: {reply.entry}")
    return replies


if __name__ == "__main__":
    main(model_of_command_line(), QUESTIONS)
