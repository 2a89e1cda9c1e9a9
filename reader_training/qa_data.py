"""Training, dev and test files for question answering, from SQuAD 1.1, half of SQuAD 2.0 dev and the almanac.

Enters: the folder of data sets and how many questions of SQuAD 1.1 to use. Leaves: `train.jsonl`, `dev.jsonl` and the
test files in a folder. No article is in two of the files: SQuAD 2.0's dev articles are also SQuAD 1.1's, so the one
among the first 1,000 questions of SQuAD 1.1 dev (Warsaw) is never trained on.
"""

import json
import lzma
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spanlab.samples import load
from spanlab.samples.export import Selection, export

Row = dict[str, Any]
Article = dict[str, Any]

TRAIN_ARTICLES = {
    "Computational_complexity_theory",
    "Steam_engine",
    "European_Union_law",
    "Yuan_dynasty",
    "Scottish_Parliament",
    "Imperialism",
    "Force",
}
"""Articles of SQuAD 2.0 dev to train on."""
DEV_ARTICLES = {"Packet_switching"}
"""For the choice of the best model and of the threshold for no answer."""
SQUAD1_DEV_ARTICLES = 6
"""Articles of SQuAD 1.1 train that are held out for dev."""
SQUAD2_COPIES = 4
"""SQuAD 2.0 is the only source of questions that people wrote to look answerable and are not."""
ALMANAC_COPIES = 12
"""The almanac is small and unlike Wikipedia; with one copy its questions were refused."""
MOVED_SHARE = 0.08
"""Share of SQuAD 1.1 questions that are asked once more of another paragraph of their article."""
CHANGED_SHARE = 0.14
"""Share of SQuAD 1.1 questions that are asked once more with a name, a number or a word changed."""
OPPOSITES = {
    word: other
    for pair in (
        *("first last", "before after", "largest smallest", "more less", "north south", "east west", "won lost"),
        *("oldest youngest", "highest lowest", "most least", "above below", "inside outside", "men women"),
        *("early late", "increase decrease", "began ended", "northern southern", "eastern western", "start end"),
        *("major minor", "longest shortest", "larger smaller", "higher lower", "earliest latest", "old new"),
        *("maximum minimum", "increased decreased", "founded dissolved", "large small"),
    )
    for word, other in (pair.split(), pair.split()[::-1])
}
NEGATED = {"did": "didn't", "was": "wasn't", "were": "weren't", "does": "doesn't", "do": "don't", "is": "isn't",
           "are": "aren't", "can": "can't", "has": "hasn't", "have": "haven't"}  # fmt: skip
_NAME = re.compile(r"(?:[A-Z][\w'’-]+(?: (?:of |the )?[A-Z][\w'’-]+)*|\b\d[\d,.]*\d\b)")


def rows_of(articles: Iterable[Article]) -> list[Row]:
    """The questions of SQuAD articles."""
    return [
        {
            "id": question["id"],
            "question": question["question"].strip(),
            "context": paragraph["context"],
            "answers": [
                {"text": answer["text"], "start": answer["answer_start"]} for answer in question.get("answers", [])
            ],
        }
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def moved_questions(articles: Sequence[Article], count: int, draw: random.Random) -> list[Row]:
    """Questions asked of the paragraph of their article that shares most words with them, and has no answer."""
    pool = [
        (question, paragraph["context"], article)
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
        if len(article["paragraphs"]) > 1
    ]
    rows = []
    for question, context, article in draw.sample(pool, count):
        answer = question["answers"][0]["text"].lower()
        others = [paragraph["context"] for paragraph in article["paragraphs"] if paragraph["context"] != context]
        without = [other for other in others if answer not in other.lower()]
        if without:
            words = set(question["question"].lower().split())
            nearest = max(without, key=lambda other: len(words & set(other.lower().split())))
            moved = {"question": question["question"].strip(), "context": nearest, "answers": []}
            rows.append({"id": f"{question['id']}-moved", **moved})
    return rows


def changed_questions(articles: Sequence[Article], count: int, draw: random.Random) -> list[Row]:
    """Questions with a name or number of another paragraph, an opposite or a negation, so that they have no answer."""
    pool = [
        (question, paragraph["context"], article)
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    draw.shuffle(pool)
    rows: list[Row] = []
    for question, context, article in pool:
        if len(rows) == count:
            break
        changes = (_with_other_name, _with_other_name, _with_opposite, _negated)
        text = draw.choice(changes)(question["question"].strip(), context, article, draw)
        if text is not None:
            rows.append({"id": f"{question['id']}-changed", "question": text, "context": context, "answers": []})
    return rows


def _with_other_name(question: str, context: str, article: Article, draw: random.Random) -> str | None:
    """A name or number of the question that is in its paragraph, replaced by one of the article that is not."""
    found = [match for match in _NAME.finditer(question) if match.start() > 0 and match[0] in context]
    if not found:
        return None
    chosen = draw.choice(found)
    is_number = chosen[0][0].isdigit()
    others = {
        match[0]
        for paragraph in draw.sample(article["paragraphs"], min(6, len(article["paragraphs"])))
        for match in _NAME.finditer(paragraph["context"])
        if match[0][0].isdigit() == is_number
        and (len(match[0]) == len(chosen[0]) if is_number else " " in match[0] or " " not in chosen[0])
        and match.start() > 0
        and paragraph["context"][match.start() - 2] != "."
    }
    others = {other for other in others if other not in context and other not in question}
    if not others:
        return None
    return question[: chosen.start()] + draw.choice(sorted(others)) + question[chosen.end() :]


def _with_opposite(question: str, context: str, article: Article, draw: random.Random) -> str | None:
    return _with_word(question, OPPOSITES)


def _negated(question: str, context: str, article: Article, draw: random.Random) -> str | None:
    return _with_word(question, NEGATED) if draw.random() < 0.5 else None


def _with_word(question: str, replacements: Mapping[str, str]) -> str | None:
    """The question with the first word that has a replacement replaced."""
    words = question.split(" ")
    for index, word in enumerate(words):
        if word in replacements:
            return " ".join([*words[:index], replacements[word], *words[index + 1 :]])
    return None


def write_qa_files(data: Path, out: Path, *, questions: int, seed: int = 1) -> None:
    """Write `train.jsonl`, `dev.jsonl`, `squad1_test.jsonl`, `squad2_test.jsonl` and `almanac_test.jsonl`."""
    draw = random.Random(seed)
    out.mkdir(parents=True, exist_ok=True)
    squad1 = json.loads(lzma.decompress((data / "qa/squad1_train.json.xz").read_bytes()))["data"]
    squad1_dev = json.loads(lzma.decompress((data / "qa/squad1_dev.json.xz").read_bytes()))["data"]
    squad2 = json.loads((data / "qa/squad2_half_dev.json").read_text())["data"]
    draw.shuffle(squad1)
    held_out, trained = squad1[:SQUAD1_DEV_ARTICLES], squad1[SQUAD1_DEV_ARTICLES:]
    for split in ("train", "dev", "test"):
        export(load(), "qa", out / "almanac", Selection(language="en", format="jsonl", split=split), overwrite=True)
    almanac = {
        split: [json.loads(line) for line in (out / "almanac" / f"{split}.jsonl").read_text().splitlines()]
        for split in ("train", "dev", "test")
    }
    train = draw.sample(rows_of(trained), questions)
    train += moved_questions(trained, round(MOVED_SHARE * questions), draw)
    train += changed_questions(trained, round(CHANGED_SHARE * questions), draw)
    for copy in range(ALMANAC_COPIES):
        train += [{**row, "id": f"{row['id']}-{copy}"} for row in almanac["train"]]
    articles = [article for article in squad2 if article["title"] in TRAIN_ARTICLES]
    for copy in range(SQUAD2_COPIES):
        train += [{**row, "id": f"{row['id']}-{copy}"} for row in rows_of(articles)]
    draw.shuffle(train)
    dev_questions = rows_of(article for article in squad2 if article["title"] in DEV_ARTICLES)
    dev = [*draw.sample(rows_of(held_out), 250), *draw.sample(dev_questions, 200), *almanac["dev"]]
    test_articles = [article for article in squad2 if article["title"] not in TRAIN_ARTICLES | DEV_ARTICLES]
    write_rows(out / "train.jsonl", train)
    write_rows(out / "dev.jsonl", dev)
    write_rows(out / "squad1_test.jsonl", rows_of(squad1_dev)[:1000])
    write_rows(out / "squad2_test.jsonl", rows_of(test_articles))
    write_rows(out / "almanac_test.jsonl", almanac["test"])


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
