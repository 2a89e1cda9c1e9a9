"""Two classifiers: spam or not, from a handful of messages; and the topic of a news item, from the almanac.

python examples/spam_and_news.py [MODEL]
"""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaged_model import model_of_command_line

import spanlab
from spanlab.inference.predictor import Predictor
from spanlab.samples import load

SPAM = [
    "Congratulations, you have won a phone! Reply now to claim your prize.",
    "Cheap loans, no questions asked. Call today.",
    "Your account is locked. Click here and confirm your card number.",
    "Earn 900 euros a day from home, guaranteed.",
    "Last chance: exclusive offer for miracle pills.",
    "You are our lucky winner. Send your bank details to receive the money.",
]
HAM = [
    "Can we move lunch to one o'clock?",
    "The minutes of Tuesday's meeting are attached.",
    "Your parcel was left with the neighbours.",
    "Happy birthday! See you on Sunday.",
    "The train is late, I will be there at eight.",
    "Please send me the second chapter when it is done.",
]
MESSAGES = ["Claim your free prize today, lucky winner!", "Is the meeting still at three?"]
NEWS = [
    "Astronomers found a small planet that circles a red star every nine days.",
    "The home side won by two goals after a slow first half.",
    "The council passed a rule that every landlord must register.",
]


def fit(model: str, rows: Iterable[tuple[str, str]], folder: Path, **training: float) -> Predictor:
    """Train a classifier on texts and labels."""
    folder.mkdir()
    train = folder / "train.jsonl"
    lines = (json.dumps({"text": text, "label": label}) for text, label in rows)
    train.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = spanlab.finetune("classification", model=model, train=train, out=folder / "run", training=training)
    return spanlab.load(run.model)


def main(model: str, *, spam_steps: int = 30, news_steps: int = 80) -> dict[str, str]:
    """The predicted label of every message and news item."""
    spam = [*((text, "spam") for text in SPAM), *((text, "ham") for text in HAM)]
    # The first two sentences show the topic, and short texts train faster.
    news = [
        (passage.text[: passage.sentences[1].end], passage.topic)
        for passage in load()
        if passage.language == "en" and passage.split == "train"
    ]
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        sorter = fit(model, spam, Path(folder) / "spam", steps=spam_steps, lr=1e-4, batch_size=12)
        found |= {text: result.label for text, result in zip(MESSAGES, sorter.predict(MESSAGES), strict=True)}
        sorter = fit(model, news, Path(folder) / "news", steps=news_steps, lr=2e-4, batch_size=16)
        found |= {text: result.label for text, result in zip(NEWS, sorter.predict(NEWS), strict=True)}
    for text, label in found.items():
        print(f"{label:<12} {text}")
    return found


if __name__ == "__main__":
    main(model_of_command_line())
