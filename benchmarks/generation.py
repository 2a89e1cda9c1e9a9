"""Abstractive summaries of SciTLDR by a tiny GPT that was trained on nothing else, with a baseline in the same run.

    python -m benchmarks.generation [--epochs 8] [--threads 1] [--train N] [--model FOLDER]

A model of two layers of 128 and a vocabulary of its own learns to write the one-sentence summary of an abstract, once
with the abstract seen in both directions and once read from left to right; both write by greedy search and with four
beams. `--model` starts from another causal model. The baseline is the abstract's first sentence. Scores are on every
second line of the dev set; the others are used for evaluation during the run.
"""

import argparse
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import circumstances, print_result
from benchmarks.summarisation import show, write_parts
from spanlab.encoder import CausalLMHead, TransformerEncoder, preset, save_model
from spanlab.inference.load import load_torch
from spanlab.inference.torch_predictor import TorchPredictor
from spanlab.metrics.generation import score_rouge
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.generation.task import Generation
from spanlab.text.train import TokenizerConfig, train_tokenizer
from spanlab.workflows.finetune import finetune

BEAMS = 4
NEW_TOKENS = 48


def write_tiny_gpt(folder: Path, train: Path) -> Path:
    """Random weights, and a vocabulary trained on the training texts."""
    rows = [json.loads(line) for line in train.read_text(encoding="utf-8").splitlines()]
    texts = [" ".join([*row["source"], *row["target"]]) for row in rows]
    tokenizer = train_tokenizer(texts, TokenizerConfig(kind="bpe", vocab_size=4096, system="gpt"))
    torch.manual_seed(0)
    encoder = TransformerEncoder(
        preset("gpt2", "tiny", vocab_size=tokenizer.vocab_size, max_positions=512, init_std=0.05)
    )
    save_model(folder, encoder, {"clm": CausalLMHead(encoder.config)})
    tokenizer.save(folder)
    return folder


def with_beams(model: TorchPredictor) -> TorchPredictor:
    """The same model, searching with several beams."""
    task = model.model.tasks["generation"]
    wider = Generation(replace(task.config, beams=BEAMS), task.fitted)
    heads = {"generation": wider.head(model.model.encoder)}
    return TorchPredictor(replace(model.model, tasks={"generation": wider}, heads=heads), model.process)


def score(model: TorchPredictor, path: Path) -> dict[str, float]:
    """The metrics on a file, and the share of texts that the model ended itself."""
    found = read_labelled(Generation, str(path), TaskDataConfig())
    results = list(model.predict_rows(found.rows))
    print(json.dumps({"first": [result.to_dict() for result in results[:5]]}, ensure_ascii=False), flush=True)
    metrics = model.model.tasks["generation"].score(found.examples, results).metrics
    ended = 100 * sum(result.to_dict()["ended"] == "stop" for result in results) / len(results)
    return {**{name: round(value, 2) for name, value in metrics.items()}, "ended": round(ended, 1)}


def lead(path: Path) -> dict[str, float]:
    """ROUGE of each abstract's first sentence."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rouge = score_rouge([row["target"] for row in rows], [row["source"][0] for row in rows])
    return {name: round(value, 2) for name, value in rouge.items()}


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=float, default=8.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--train", type=int, help="at most so many training abstracts")
    parser.add_argument("--test", type=int, help="at most so many abstracts to be scored on")
    parser.add_argument("--model", type=Path, help="a causal model to begin from")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_parts(folder, options.train, options.test)
        base = options.model or write_tiny_gpt(folder / "tiny", files["train"])
        training = {"epochs": options.epochs, "threads": options.threads, "eval_every": 10**9, "lr": 2e-3}
        for prefix in ("both", "causal"):
            start = time.perf_counter()
            finetune(
                "generation",
                model=base,
                train=files["train"],
                dev=files["tune"],
                out=folder / prefix,
                on_record=show,
                prefix=prefix,
                max_new_tokens=NEW_TOKENS,
                training=training,
                data={"length": 512, "long_text": "truncate"},
            )
            minutes = round((time.perf_counter() - start) / 60, 1)
            model = load_torch(folder / prefix, precision="fp32")
            result[prefix] = {
                "greedy": score(model, files["test"]),
                f"beams_{BEAMS}": score(with_beams(model), files["test"]),
                "training_minutes": minutes,
            }
        result["lead"] = lead(files["test"])
    print_result({**result, **circumstances()})


if __name__ == "__main__":
    main()
