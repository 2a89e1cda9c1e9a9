"""Measure the reader on data that it was never trained on, and write its card.

    python -m reader_training.score --data DIR --runs DIR [--model reader] [--card FILE]

Enters: the shipped model and the test files of `reader_training.train`. Leaves: `scores.json` in the folder of the
runs, and the model card: the text of `card.md` with the table of scores in place. A task whose scores are there already
is measured again only if its weights have changed.
"""

import argparse
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.relation_tables import EntityTable, RelationTable
from reader_training.assemble import BOX, CARD
from reader_training.span_data import CONLL2003_TYPES
from spanlab.atomic_io import sha256_of, write_atomically, write_json
from spanlab.inference.load import load_torch
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.metrics.relations import score_joint_relations
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.ner.data import NerResult
from spanlab.tasks.relation.task import Relations

Metrics = dict[str, float]
TEMPLATE = Path(__file__).with_name("card.md")
ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("qa", "squad1_test.jsonl", "SQuAD 1.1 dev, first 1,000 questions", "f1"),
    ("qa", "squad1_test.jsonl", "… always answering", "always_answering_f1"),
    ("qa", "squad2_test.jsonl", "SQuAD 2.0 dev, articles not trained on", "f1"),
    ("qa", "squad2_test.jsonl", "… with the threshold of no answer that is best on dev", "strict_f1"),
    ("qa", "squad2_test.jsonl", "… never answering would have", "never_answering_f1"),
    ("qa", "almanac_test.jsonl", "almanac test, questions with an answer", "has_answer_f1"),
    ("entities", "almanac_test.jsonl", "almanac test, eight types", "f1"),
    ("entities", "conll2003_test.jsonl", "CoNLL-2003 dev, PER, LOC and ORG", "f1"),
    ("coref", "litbank_test.conll", "LitBank test, CoNLL F1 without singletons", "conll_f1_without_singletons"),
    ("coref", "litbank_test.conll", "… with singletons", "conll_f1"),
    ("coref", "gap.dev.tsv", "GAP dev, F1 (TRUE for every name: 62.1)", "f1"),
    ("coref", "gap.dev.tsv", "… bias, feminine over masculine F1", "bias"),
    ("relations", "almanac_test.jsonl", "almanac test, F1 with entities found by the model", "f1"),
    ("relations", "almanac_test.jsonl", "… by a look-up table of the training data", "look_up_f1"),
    ("summary", "almanac_test.jsonl", "almanac test, key sentence, ROUGE-1", "rouge1"),
    ("summary", "scitldr_test.jsonl", "SciTLDR dev, ROUGE-1 against the labelled sentences", "rouge1"),
    ("sentiment", "sst2_test.jsonl", "SST-2 dev, accuracy", "accuracy"),
    ("topic", "almanac_test.jsonl", "almanac test, nine topics, accuracy", "accuracy"),
    ("similarity", "STS-B", "STS-B dev, Spearman times 100", "spearman"),
)
"""Task, test file, what it is, and the metric, in the order of the card."""
PLACES = {"gap.dev.tsv": "coref/gap.dev.tsv", "STS-B": "pairs/STS-B/dev.tsv"}
"""Test files that are used as published, in the folder of data sets."""


def measure(model: TorchPredictor, task: str, path: Path, *, strict: float = 0.0) -> Metrics:
    """The metrics of a task on a test file; `strict` is another threshold of no answer."""
    if task == "entities" and path.name == "conll2003_test.jsonl":
        return _score_mapped(model, task, path)
    if task == "qa":
        return _score_answers(model, path, strict=strict)
    metrics = dict(model.evaluate(str(path), task=task).metrics)
    if task == "similarity":
        metrics["spearman"] *= 100
    if task == "relations":
        metrics["look_up_f1"] = _look_up(path)
    return metrics


def _score_answers(model: TorchPredictor, path: Path, *, strict: float) -> Metrics:
    """As the model answers; with the threshold that is best on dev, or always answering; and never answering."""
    task: Any
    task, labelled, results = model.predict_labelled(str(path), task="qa")
    metrics: Metrics = dict(task.score(labelled.examples, results).metrics)
    unanswerable = sum(not example.answers for example in labelled.examples)
    metrics["never_answering_f1"] = 100 * unanswerable / len(labelled.examples)
    changed = {"strict_f1": {"no_answer": strict}} if metrics["never_answering_f1"] else {"always_answering_f1": {}}
    for name, thresholds in changed.items():
        other = type(task)(task.config, replace(task.fitted, thresholds=thresholds))
        predictor = TorchPredictor(replace(model.model, tasks={**model.model.tasks, "qa": other}), model.process)
        metrics[name] = predictor.evaluate(str(path), task="qa").metrics["f1"]
    return metrics


def _look_up(path: Path) -> float:
    """F1 of tables: of the training data's entities by their words, of relations by the labels of a pair."""
    train, test = (
        read_labelled(Relations, str(path.with_name(name)), TaskDataConfig()).examples
        for name in ("train.jsonl", path.name)
    )
    entities, relations = EntityTable(train), RelationTable(train)
    looked_up = [relations.fill(entities.find(example.text)) for example in test]
    return score_joint_relations([example.gold for example in test], looked_up)["f1"]


def _score_mapped(model: TorchPredictor, task: str, path: Path) -> Metrics:
    """Entities of the types that CoNLL-2003 knows; of nested ones the outermost, as it has no others."""
    chosen, labelled, results = model.predict_labelled(str(path), task=task)
    mapped = []
    for result in results:
        assert isinstance(result, NerResult)
        spans = [span for span in result.spans if span.label in CONLL2003_TYPES]
        mapped.append(replace(result, spans=tuple(_outermost(spans))))
    return dict(chosen.score(labelled.examples, mapped).metrics)


def _outermost(spans: Iterable[Any]) -> list[Any]:
    kept: list[Any] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def measure_all(model: TorchPredictor, *, data: Path, runs: Path) -> dict[str, dict[str, Any]]:
    """The metrics by task and test file; those measured before with the same weights are kept."""
    path = runs / "scores.json"
    scores: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else {}
    for task, file in dict.fromkeys((task, file) for task, file, _, _ in ROWS):
        source = data / PLACES[file] if file in PLACES else runs / "data" / task / file
        weights = runs / task / "model/heads.safetensors"
        version = sha256_of(weights) if weights.is_file() else ""
        done = scores.get(task, {}).get(file)
        if done is not None and done["weights"] == version:
            continue
        start = time.perf_counter()
        metrics = measure(model, task, source, strict=_tuned_threshold(runs))
        scores.setdefault(task, {})[file] = {
            "weights": version,
            "seconds": round(time.perf_counter() - start, 1),
            "metrics": metrics,
        }
        write_json(path, scores)
        print(task, file, {name: round(value, 2) for name, value in metrics.items()}, flush=True)  # noqa: T201
    return scores


def _tuned_threshold(runs: Path) -> float:
    """The threshold of no answer that training has tuned on dev."""
    described = json.loads((runs / "qa/model/spanlab.json").read_text(encoding="utf-8"))
    return float(described["tasks"]["qa"]["thresholds"]["no_answer"])


def table(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """The scores as rows of Markdown."""
    lines = ["| task | measured on | score |", "|---|---|---|"]
    for task, file, title, metric in ROWS:
        value = scores[task][file]["metrics"][metric]
        lines.append(
            f"| `{task}` | {title} | {value:.2f} |" if metric == "bias" else f"| `{task}` | {title} | {value:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs of reader.train")
    parser.add_argument("--model", default="reader")
    parser.add_argument("--card", type=Path, default=BOX / CARD, help="the card to write")
    options = parser.parse_args(arguments)
    scores = measure_all(load_torch(options.model, device="cpu"), data=options.data, runs=options.runs)
    card = TEMPLATE.read_text(encoding="utf-8").replace("{scores}", table(scores))
    write_atomically(options.card, card.encode())


if __name__ == "__main__":
    main()
