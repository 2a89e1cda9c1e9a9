"""Customer service: find the FAQ entry that a question is about, and extract the answer from it.

    python examples/customer_service.py [MODEL]

The entry is found by its embedding, the answer by a question answering model. That model is trained here on the
almanac's questions; with a model of your own, the function `answer` is all you need.
"""

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
    """The entry a question is about, and the best answer in it."""

    entry: str
    answer: str
    score: float


def learn_to_answer(model: str, folder: Path, **training: float) -> Predictor:
    """Train a question answering model on the English questions of the almanac."""
    export(load(), "qa", folder / "questions", Selection(language="en", format="jsonl"))
    train, dev = (folder / "questions" / f"{split}.jsonl" for split in ("train", "dev"))
    settings = {"epochs": 4, "lr": 2e-4, "batch_size": 16, **training}
    return spanlab.load(
        spanlab.finetune("qa", model=model, train=train, dev=dev, out=folder / "run", training=settings).model
    )


def answer(question: str, searcher: Predictor, reader: Predictor, entries: list[str]) -> Reply:
    """Retrieve an entry, then extract the answer."""
    entry = entries[int(np.argmax(searcher.encode(entries) @ searcher.encode(question)))]
    # The entry was found for this question, so its best answer is given even where the model leans to none.
    best = next(found for found in reader.predict((question, entry))[0].nbest if found.answer)
    return Reply(entry, best.answer, best.score)


def main(model: str, questions: list[str], **training: float) -> list[Reply]:
    """Answer all questions."""
    searcher = spanlab.load(model)
    with tempfile.TemporaryDirectory() as folder:
        reader = learn_to_answer(model, Path(folder), **training)
        replies = [answer(question, searcher, reader, FAQ) for question in questions]
    for question, reply in zip(questions, replies, strict=True):
        print(f"{question}\n  {reply.answer} ({reply.score:.0%}), from: {reply.entry}")
    return replies


if __name__ == "__main__":
    main(model_of_command_line(), QUESTIONS)
