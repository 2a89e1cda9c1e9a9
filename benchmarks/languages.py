"""Chinese and Korean from file to score: questions, sentiment and entities, each with a tokenizer that fits.

    python -m benchmarks.languages [--only cmrc,korquad] [--threads 1] [--steps N]

Chinese takes BERT's published Chinese vocabulary, in which every Han character is a token; Korean a unigram one that is
trained here on the training texts. The encoder is a tiny SpanBERT with rotary positions whose weights are random: it
has seen nothing but the training file, so questions score low, and sentiment and entities reach what can be learned
from their own examples. Offsets are verified by comparing strings on every example of training and test
(`offset_proofs`). The files are found through SPANLAB_DATA.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.finetune import data_folder
from benchmarks.measure import circumstances, print_result
from benchmarks.offset_proofs import (
    answers_come_back,
    entities_come_back,
    results_stand_in_their_text,
    tokens_spell_their_characters,
)
from spanlab.encoder import TransformerEncoder, preset
from spanlab.inference.load import load
from spanlab.inference.predictor import Predictor
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import Examples, read_labelled
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.qa.task import QuestionAnswering
from spanlab.tasks.table import find_task
from spanlab.text import Tokenizer, TokenizerConfig, train_tokenizer
from spanlab.workflows.finetune import finetune

DROP = TaskDataConfig(bad_rows="drop")
Split = Callable[[Path, Path], tuple[Path, Path]]
"""Data folder and a folder to write to; training and test file."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A data set, and how long a tiny model is trained on it."""

    language: Literal["zh", "ko"]
    task: str
    split: Split
    epochs: float
    lr: float = 1e-3
    batch_size: int = 32
    floor: float | None = None
    """What the task's first metric has to reach; for sentiment, points over the majority class."""
    settings: dict[str, Any] = field(default_factory=dict)


def files(train: str, test: str) -> Split:
    """Two files as they are."""
    return lambda data, _: (data / train, data / test)


def split_articles(name: str) -> Split:
    """A SQuAD file by article: of every five, four to training."""

    def split(data: Path, folder: Path) -> tuple[Path, Path]:
        document = json.loads((data / name).read_text(encoding="utf-8"))
        paths = folder / "train.json", folder / "test.json"
        for path, remainders in zip(paths, (range(4), range(4, 5)), strict=True):
            articles = [article for index, article in enumerate(document["data"]) if index % 5 in remainders]
            path.write_text(json.dumps({**document, "data": articles}, ensure_ascii=False), encoding="utf-8")
        return paths

    return split


def split_sentences(name: str) -> Split:
    """A column file by sentence: of every five, four to training."""

    def split(data: Path, folder: Path) -> tuple[Path, Path]:
        sentences = (data / name).read_text(encoding="utf-8").strip("\n").split("\n\n")
        paths = folder / "train.conll", folder / "test.conll"
        for path, places in zip(paths, ((0, 1, 2, 3), (4,)), strict=True):
            chosen = [sentence for number, sentence in enumerate(sentences) if number % 5 in places]
            path.write_text("\n\n".join(chosen) + "\n", encoding="utf-8")
        return paths

    return split


WINDOWS = {"data": {"length": 512, "stride": 256, "bad_rows": "drop"}}
CASES: dict[str, Case] = {
    "chnsenticorp": Case(
        language="zh",
        task="classification",
        split=files("classification/ChnSentiCorp_zh/train.tsv", "classification/ChnSentiCorp_zh/dev.tsv"),
        epochs=1,
        floor=10.0,
    ),
    "resume": Case(
        language="zh", task="ner", split=files("ner/resume_zh.train", "ner/resume_zh.dev"), epochs=8, floor=60.0
    ),
    "cmrc": Case(
        language="zh",
        task="qa",
        split=files("qa/cmrc2018_dev_zh.json", "qa/cmrc2018_trial_zh.json"),
        epochs=0.5,
        settings=WINDOWS,
    ),
    "nsmc": Case(
        language="ko",
        task="classification",
        split=files("classification/NSMC_ko/train.tsv", "classification/NSMC_ko/test.tsv"),
        epochs=1,
        floor=10.0,
    ),
    "klue": Case(language="ko", task="ner", split=split_sentences("ner/klue_ko.dev"), epochs=3),
    "korquad": Case(
        language="ko", task="qa", split=split_articles("qa/korquad1_dev_ko.json"), epochs=0.5, settings=WINDOWS
    ),
}


def texts_of(found: Examples) -> Iterator[str]:
    """Every text of the examples, once."""
    told: dict[str, None] = {}
    for example in found.examples:
        parts = (example.question, *example.contexts) if hasattr(example, "contexts") else (example.text,)
        told.update(dict.fromkeys(parts))
    return iter(told)


def tokenizer_for(case: Case, train: Examples) -> Tokenizer:
    """BERT's Chinese vocabulary, or a Korean one trained on the training texts."""
    if case.language == "zh":
        return Tokenizer.load(data_folder() / "tokenizers/bert-base-chinese")
    # Small subwords: particles are attached to the words before them, and an answer should end at a token boundary.
    config = TokenizerConfig(kind="unigram", vocab_size=4000, system="bert", lowercase=True, strip_accents=False)
    return train_tokenizer(list(texts_of(train)), config)


def write_encoder(folder: Path, tokenizer: Tokenizer) -> Path:
    """A tiny SpanBERT with random weights."""
    torch.manual_seed(0)
    body = {"positions": "rotary", "norm_place": "pre", "final_norm": True, "init_std": 0.05}
    TransformerEncoder(preset("spanbert", "tiny", vocab_size=tokenizer.vocab_size, **body)).save_pretrained(folder)
    tokenizer.save(folder)
    return folder


def prove(model: Predictor, parts: dict[str, Examples]) -> dict[str, dict[str, int]]:
    """Verify the offsets of all examples; returns counts."""
    (name,) = model.tasks
    task, windower = model.model.tasks[name], model.model.windower(name)
    examples = [example for found in parts.values() for example in found.examples]
    texts = [text for found in parts.values() for text in texts_of(found)]
    proofs = {"tokens": tokens_spell_their_characters(model.model.tokenizer, texts)}
    if isinstance(task, NamedEntities):
        proofs["entities"] = entities_come_back(task, examples, windower)
    if isinstance(task, QuestionAnswering):
        proofs["answers"] = answers_come_back(task, examples, windower)
    return proofs


def majority(found: Examples) -> float:
    """The share of the most frequent label, in percent."""
    counts = Counter(example.labels for example in found.examples)
    return 100 * counts.most_common(1)[0][1] / len(found)


def run(case: Case, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Read, train, predict, score, prove."""
    folder.mkdir(parents=True)
    began = time.perf_counter()
    kind = find_task(case.task)
    paths = dict(zip(("train", "test"), case.split(data_folder(), folder), strict=True))
    parts = {name: read_labelled(kind, str(path), DROP) for name, path in paths.items()}
    model_folder = write_encoder(folder / "encoder", tokenizer_for(case, parts["train"]))
    steps = {"steps": options.steps} if options.steps else {"epochs": case.epochs}
    training = {"lr": case.lr, "batch_size": case.batch_size, "threads": options.threads, "save_every": 10**9, **steps}
    settings = {"data": {"bad_rows": "drop"}, **case.settings}
    finetune(case.task, model=model_folder, train=paths["train"], out=folder / "run", training=training, **settings)
    trained = time.perf_counter() - began
    model = load(folder / "run")
    results = list(model.predict_rows(parts["test"].rows))
    scores = model.model.tasks[case.task].score(parts["test"].examples, results)
    told: dict[str, Any] = {name: round(value, 2) for name, value in scores.metrics.items()}
    if case.task == "classification":
        told["majority"] = round(majority(parts["test"]), 2)
    return {
        "train": len(parts["train"]),
        "test": len(parts["test"]),
        "dropped": {name: dict(found.dropped) for name, found in parts.items() if found.dropped},
        **told,
        "floor_reached": reached(case, told),
        "proofs": {**prove(model, parts), "results": results_stand_in_their_text(results)},
        "minutes": {"training": round(trained / 60, 1), "in_all": round((time.perf_counter() - began) / 60, 1)},
    }


def reached(case: Case, told: dict[str, Any]) -> bool | None:
    """Whether the floor is reached; None where there is none."""
    if case.floor is None:
        return None
    if case.task == "classification":
        return bool(told["accuracy"] >= told["majority"] + case.floor)
    return bool(told["f1"] >= case.floor)


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), help="data sets, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, help="training steps of each, in place of its epochs")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    about = circumstances()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            result[name] = run(CASES[name], Path(folder) / name, options)
            print(name, json.dumps(result[name]), flush=True)
    wrong = sum(proof["wrong"] for found in result.values() for proof in found["proofs"].values())
    print_result({"offsets_wrong": wrong, **result, **about})


if __name__ == "__main__":
    main()
