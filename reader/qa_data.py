"""Training, dev and test files for question answering, from SQuAD 1.1, half of SQuAD 2.0 dev and the almanac.

Enters: the folder of data sets and how many questions of SQuAD 1.1 to use. Leaves: `train.jsonl`, `dev.jsonl` and the
test files in a folder. No article is in two of the files: SQuAD 2.0's dev articles are also SQuAD 1.1's, so the one
among the first 1,000 questions of SQuAD 1.1 dev (Warsaw) is never trained on.
"""

import json
import lzma
import random
from collections.abc import Iterable, Sequence
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
SQUAD2_COPIES = 3
"""SQuAD 2.0 is the only source of questions that look answerable and are not."""
MOVED_SHARE = 0.06
"""Share of SQuAD 1.1 questions that are asked once more of another paragraph of their article."""


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
    train += almanac["train"]
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
