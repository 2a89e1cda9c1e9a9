"""Relations with the real MiniLM, compared with a plain transformers loop and with look-up tables.

    python -m benchmarks.relation [--only semeval,conll04,scierc] [--parts losses,scores] [--train N] [--epochs E]

- SemEval-2010 task 8 (the last 1,000 training sentences are dev): the official macro F1 and the time of training, ours
  and of the same encoder with the same markers, data, epochs and batch size in a plain loop, padded per batch;
- CoNLL04 and SciERC: entities and relations found together. The threshold is tuned on the last tenth of the training
  sentences, and the scores are those on the dev file, which was not used for any choice.

Data sets are found through SPANLAB_DATA.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.finetune import (
    Bench,
    Contest,
    compare_losses,
    compare_scores,
    data_folder,
    minilm,
    read_options,
    read_task_file,
    train_ours,
)
from benchmarks.finetune_peer import MODEL_INPUTS, Feature, SentencePeer
from benchmarks.measure import circumstances, print_result
from benchmarks.relation_tables import EntityTable, RelationTable, WordsBetween
from spanlab.inference.load import load
from spanlab.metrics.relations import score_joint_relations, score_semeval_2010_task_8
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.relation.task import Relations

SEMEVAL_TRAIN = 7000
JOINT_BATCH = 16
"""Small, as the data are."""


def semeval(data: Path) -> Iterator[dict[str, Any]]:
    """All sentences."""
    return read_task_file("relation", data / "relation/semeval2010_task8.train")


def directed(example: Any) -> str:  # noqa: ANN401 (a RelationExample)
    """The label of a sentence as the official scorer reads it."""
    if not example.relations:
        return "Other"
    relation = example.relations[0]
    return f"{relation.label}({'e1,e2' if relation.head < relation.tail else 'e2,e1'})"


class MarkedPeer(SentencePeer):
    """SemEval in transformers: the text with four unused tokens around its entities, and a label for all of it."""

    def __init__(self, folder: Path, task: Any) -> None:  # noqa: ANN401
        super().__init__(folder, task)
        self.markers = [f"[unused{number}]" for number in range(4)]
        self.tokenizer.add_special_tokens({"additional_special_tokens": self.markers})
        self.labels = ["Other"]
        self.labels += [f"{name}({way})" for name in task.fitted.labels for way in ("e1,e2", "e2,e1")]

    def head_options(self) -> dict[str, Any]:
        """Both directions of every relation, and none."""
        return {"num_labels": len(self.labels)}

    def features(self, examples: Sequence[Any]) -> list[Feature]:
        """One sequence per sentence."""
        texts = [self._marked(one) for one in examples]
        encoded = self.tokenizer(texts, truncation=True, max_length=self.length)
        rows = [{name: encoded[name][i] for name in MODEL_INPUTS} for i in range(len(texts))]
        return [{**row, "label": self.labels.index(directed(one))} for row, one in zip(rows, examples, strict=True)]

    def _marked(self, example: Any) -> str:  # noqa: ANN401
        text, (first, second) = example.text, example.entities
        opening, closing, other_opening, other_closing = self.markers
        return (
            f"{text[: first.start]} {opening} {text[first.start : first.end]} {closing} "
            f"{text[first.end : second.start]} {other_opening} {text[second.start : second.end]} {other_closing} "
            f"{text[second.end :]}"
        )

    def answers(self, features: Sequence[Feature], logits: Sequence[Any], examples: Sequence[Any]) -> list[str]:
        """The best label."""
        return [self.labels[int(row.argmax())] for row in logits]

    def score(self, examples: Sequence[Any], answers: Sequence[str]) -> float:
        """The official macro F1."""
        return score_semeval_2010_task_8([directed(one) for one in examples], answers)["macro_f1"]


SEMEVAL = Contest(
    task="relation",
    train=lambda data: islice(semeval(data), SEMEVAL_TRAIN),
    dev=lambda data: islice(semeval(data), SEMEVAL_TRAIN, None),
    train_count=SEMEVAL_TRAIN,
    dev_count=1000,
    metric="macro_f1",
    peer=MarkedPeer,
    lr=2e-4,
    epochs=2.0,
    length=128,
)


class SemevalBench(Bench):
    """Settings that the plain loop shares: one learning rate for everything."""

    def config(self, seed: int, **training: Any) -> Any:  # noqa: ANN401
        """Our settings."""
        return super().config(seed, lr_factors={"heads": 1.0}, **training)


@dataclass(frozen=True, kw_only=True)
class JointFiles:
    """A data set with entities and relations."""

    train: str
    test: str
    sentences: int
    """Of the training file."""
    epochs: float


JOINT = {
    "conll04": JointFiles(train="conll04.train", test="conll04.dev", sentences=910, epochs=12.0),
    "scierc": JointFiles(
        train="scierc_joint_er_train.json", test="scierc_joint_er_dev.json", sentences=1861, epochs=6.0
    ),
}


class JointBench(Bench):
    """Entities and relations together."""

    def config(self, seed: int, **training: Any) -> Any:  # noqa: ANN401
        """Our settings; entities wider than the candidate spans are left out of training."""
        config = super().config(seed, batch_size=JOINT_BATCH, lr_factors={"heads": 10.0}, **training)
        return replace(config, data=replace(config.data, bad_rows="drop"))


def joint_contest(files: JointFiles) -> Contest:
    """The last tenth of the training sentences is what the threshold is tuned on."""
    train = files.sentences * 9 // 10

    def rows(data: Path) -> Iterator[dict[str, Any]]:
        return read_task_file("relation", data / "relation" / files.train)

    return Contest(
        task="relation",
        train=lambda data: islice(rows(data), train),
        dev=lambda data: islice(rows(data), train, None),
        train_count=train,
        dev_count=files.sentences - train,
        metric="f1",
        peer=MarkedPeer,
        lr=2e-4,
        epochs=files.epochs,
        length=256,
    )


SHOWN = ("entity_f1", "boundary_f1", "f1", "macro_f1")


def measure_joint(bench: Bench, test: Path, model: Path) -> dict[str, Any]:
    """Scores on the test file, ours and those of look-up tables."""
    mine, _ = train_ours(bench, model, 0)
    ours = load(bench.folder / "run-0", device="cpu").evaluate(str(test)).metrics
    train, gold = (read_labelled(Relations, str(path), TaskDataConfig()).examples for path in (bench.train, test))
    entities, relations = EntityTable(train), RelationTable(train)
    looked_up = [relations.fill(entities.find(one.text)) for one in gold]
    plain = score_joint_relations([one.gold for one in gold], looked_up)
    result = {
        **{name: round(ours[name], 2) for name in SHOWN},
        **{f"plain_{name}": round(plain[name], 2) for name in SHOWN},
        "seconds": round(mine.seconds),
    }
    print(f"  {result}", flush=True)
    return result


def measure_semeval(bench: Bench, model: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Ours, the plain loop, and a look-up table of the words between the entities."""
    found: dict[str, Any] = {}
    if "losses" in options.parts:
        found |= compare_losses(bench, model)
    if "scores" in options.parts:
        found |= compare_scores(bench, model, options.seeds)[0]
    train, dev = (read_labelled(Relations, str(path), TaskDataConfig()).examples for path in (bench.train, bench.dev))
    table = WordsBetween([(one, directed(one)) for one in train])
    gold = [directed(one) for one in dev]
    plain = score_semeval_2010_task_8(gold, [table.label(one) for one in dev])["macro_f1"]
    return {**found, "plain_score": round(plain, 2)}


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    options = read_options(__doc__, only=["semeval", *JOINT], parts="scores", threads=1)
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    data, about = data_folder(), circumstances()
    print(about)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            print(name, flush=True)
            place = Path(folder) / name
            if name == "semeval":
                result[name] = measure_semeval(SemevalBench(SEMEVAL, data, place, options), minilm(), options)
            else:
                bench = JointBench(joint_contest(JOINT[name]), data, place, options)
                result[name] = measure_joint(bench, data / "relation" / JOINT[name].test, minilm())
    print_result({**result, **about})


if __name__ == "__main__":
    main()
