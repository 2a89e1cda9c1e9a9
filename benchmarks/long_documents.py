"""Entities and an answer in a document of 50,000 words: time, peak memory, and equality with window by window.

    python -m benchmarks.long_documents [--words 50000] [--threads 2] [--check]

The encoder is the real MiniLM with new heads: what they find is arbitrary, what it costs is not. With `--check` every
window is computed alone as well, and the results must be the same. The text is a novel, found through SPANLAB_DATA.
"""

import argparse
import tarfile
import time
from typing import Any

import torch

from benchmarks.finetune import data_folder, minilm
from benchmarks.measure import circumstances, print_result
from spanlab.encoder import load_model
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.machine import peak_memory_gb
from spanlab.tasks.base import AnyTask
from spanlab.tasks.formats.row import Row
from spanlab.tasks.model import TaskModel
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.qa.config import QaConfig
from spanlab.tasks.qa.data import GoldAnswer, QaExample
from spanlab.tasks.qa.task import QuestionAnswering
from spanlab.text import Tokenizer
from spanlab.training.distributed import current_process

QUESTION = "Where did they go in the evening?"


def novel(words: int) -> str:
    """The first words of the longest novel."""
    with tarfile.open(data_folder() / "novels/novels.tar.xz") as archive:
        longest = max((member for member in archive.getmembers() if member.isfile()), key=lambda member: member.size)
        file = archive.extractfile(longest)
        assert file is not None
        text = file.read().decode("utf-8")
    process = 0
    for _ in range(words):
        process = text.find(" ", process + 1)
    return text[:process]


def predictors() -> dict[str, TorchPredictor]:
    """A model with a new head for each task and kind of head."""
    entity = {"text": "Anna", "spans": [{"start": 0, "end": 4, "label": "PER"}]}
    examples = [NamedEntities.read(Row(values=entity), labelled=True)]
    question = QaExample(id=None, question="Who?", contexts=("Anna",), answers=(GoldAnswer(text="Anna", start=0),))
    tasks: dict[str, AnyTask] = {
        "ner": NamedEntities.fit(NerConfig(), examples),
        "ner head=span": NamedEntities.fit(NerConfig(head="span"), examples),
        "qa": QuestionAnswering.fit(QaConfig(), [question]),
    }
    return {name: predictor(task) for name, task in tasks.items()}


def predictor(task: AnyTask) -> TorchPredictor:
    """MiniLM with a new head."""
    torch.manual_seed(0)
    encoder = load_model(minilm()).encoder.eval()
    head: Any = task.head(encoder)
    tokenizer = Tokenizer.load(minilm())
    model = TaskModel(encoder=encoder, tokenizer=tokenizer, tasks={task.name: task}, heads={task.name: head.eval()})
    return TorchPredictor(model, current_process("cpu", "auto"))


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 (results)
    """Whether two results are equal, scores to the fourth digit."""
    if hasattr(one, "spans"):
        pairs = zip(one.spans, other.spans, strict=False)
        return len(one.spans) == len(other.spans) and all(
            (a.start, a.end, a.label) == (b.start, b.end, b.label) and abs(a.score - b.score) < 1e-4 for a, b in pairs
        )
    return (one.answer, one.start, one.end) == (other.answer, other.start, other.end)


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="also compute every window alone")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    about, text = circumstances(), novel(options.words)
    result: dict[str, Any] = {}
    for name, model in predictors().items():
        given: Any = {"question": QUESTION, "context": text} if name == "qa" else text
        before, began = peak_memory_gb("cpu"), time.perf_counter()
        (found,) = model.predict([given])
        seconds, peak = time.perf_counter() - began, peak_memory_gb("cpu")
        print(f"{name}: {found.windows} windows in {seconds:.0f} s, peak {before:.2f} to {peak:.2f} GB", flush=True)
        result[name] = {"windows": found.windows, "seconds": round(seconds, 1), "peak_gb": round(peak, 2)}
        if options.check:
            (alone,) = model.predict([given], batch_tokens=1)
            result[name]["same_window_by_window"] = same(found, alone)
            print(f"  window by window the same: {same(found, alone)}", flush=True)
    print_result({**result, **about})


if __name__ == "__main__":
    main()
