"""Training, dev and test files for summaries, sentiment, topics and coreference.

Enters: the folder of data sets. Leaves: files in a folder, in formats that `spanlab finetune` reads. SST-2's published
dev set is the test set here, so a share of its training sentences is held out as dev.
"""

import csv
import json
import random
import tarfile
from pathlib import Path

from reader_training.qa_data import write_rows
from reader_training.span_data import Row, almanac_rows
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.coref.task import Coreference
from spanlab.tasks.examples import read_labelled

SUMMARY_COPIES = 3
LITBANK_PARTS = {"train": slice(0, 80), "dev": slice(80, 90), "test": slice(90, 100)}
"""In the order of the file names."""
SENTIMENTS = {"0": "negative", "1": "positive"}
SST2_DEV = 1000


def write_summary_files(data: Path, out: Path) -> None:
    """Write `train.jsonl`, `dev.jsonl`, `almanac_test.jsonl` and `scitldr_test.jsonl`."""
    almanac = almanac_rows("summarisation", out)
    papers = [_abstract(line) for line in (data / "summarisation/scitldr/train.jsonl").read_text().splitlines()]
    train, dev = papers[:-150], papers[-150:]
    train += [{**row, "id": f"{row['id']}-{copy}"} for copy in range(SUMMARY_COPIES) for row in almanac["train"]]
    write_rows(out / "train.jsonl", train)
    write_rows(out / "dev.jsonl", [*dev, *almanac["dev"]])
    write_rows(out / "almanac_test.jsonl", almanac["test"])
    test = [_abstract(line) for line in (data / "summarisation/scitldr/dev.jsonl").read_text().splitlines()]
    write_rows(out / "scitldr_test.jsonl", test)


def _abstract(line: str) -> Row:
    """An abstract of SciTLDR with its labelled sentences."""
    paper = json.loads(line)
    return {"id": paper["paper_id"], "sentences": paper["source"], "labels": paper["source_labels"]}


def write_sentiment_files(data: Path, out: Path, seed: int = 1) -> None:
    """Write `train.jsonl`, `dev.jsonl` and `sst2_test.jsonl`."""
    out.mkdir(parents=True, exist_ok=True)
    rows = _sst2(data / "classification/SST-2/train.tsv")
    random.Random(seed).shuffle(rows)
    held_out = {row["text"] for row in rows[:SST2_DEV]}
    write_rows(out / "train.jsonl", [row for row in rows if row["text"] not in held_out])
    write_rows(out / "dev.jsonl", rows[:SST2_DEV])
    write_rows(out / "sst2_test.jsonl", _sst2(data / "classification/SST-2/dev.tsv"))


def _sst2(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        cells = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [{"text": row["sentence"].strip(), "label": SENTIMENTS[row["label"]]} for row in cells]


def write_topic_files(data: Path, out: Path) -> None:
    """Write `train.jsonl`, `dev.jsonl` and `almanac_test.jsonl`; all of it comes from the almanac."""
    almanac = almanac_rows("classification", out)
    write_rows(out / "train.jsonl", almanac["train"])
    write_rows(out / "dev.jsonl", almanac["dev"])
    write_rows(out / "almanac_test.jsonl", almanac["test"])


def write_coref_files(data: Path, out: Path) -> None:
    """Write `train.jsonl` from LitBank and the almanac, `dev.conll` and `litbank_test.conll` from LitBank."""
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(data / "coref/litbank_conll.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".conll")]
        members.sort(key=lambda member: Path(member.name).name)
        files = [archive.extractfile(member) for member in members]
        texts = [file.read().decode("utf-8").rstrip("\n") + "\n" for file in files if file is not None]
    for part, name in (("train", "litbank_train"), ("dev", "dev"), ("test", "litbank_test")):
        (out / f"{name}.conll").write_text("".join(texts[LITBANK_PARTS[part]]), encoding="utf-8")
    novels = read_labelled(Coreference, str(out / "litbank_train.conll"), TaskDataConfig())
    write_rows(out / "train.jsonl", [*(dict(row.values) for row in novels.rows), *almanac_rows("coref", out)["train"]])
