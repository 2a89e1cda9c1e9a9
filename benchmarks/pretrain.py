"""Pre-training from end to end, compared with transformers' Trainer and its MLM collator.

    python -m benchmarks.pretrain [--rounds 3] [--steps 6] [--precision fp32 bf16]

Both sides train masked language modelling on the same blocks of the novels in the same order, 32 a step, with a BERT of
4 layers of 256, dropout 0.1, and BERT's uncased vocabulary of 30,522. SpanLab's time is everything:
blocks read from disk, masks, model, clipping, AdamW, records. The peer has its blocks in memory as lists, pads them
per batch, attends by SDPA and steps with the fused AdamW. Tokens are those of text, padding not counted. Also measured:
SpanLab with span masking and the span boundary objective, the share of data and masking in a step, and two processes
against one.

The novels come from the folder that SPANLAB_DATA names (or ../shared/data): novels/novels.tar.xz, tokenizers/.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.measure import Ratio, circumstances, print_result
from benchmarks.prepare import data_folder, unpack
from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.pretraining.build import WeightedCorpus, build_training_spec
from spanlab.pretraining.recipe import load_recipe
from spanlab.text import Tokenizer
from spanlab.training.distributed import current_process
from spanlab.training.malloc import keep_freed_memory
from spanlab.training.train_step import TrainStep

NOVELS, BATCH, LENGTH = 8, 32, 128
COMMON = ["size=mini", f"data.length={LENGTH}", f"training.batch_size={BATCH}", "training.lr=1e-4", "data.held_out=0"]
PLAIN_MLM = ["objectives.sbo=0", "masking.law=subword", "masking.replace_per=token", "masking.random_from=vocabulary"]


class Ours:
    """SpanLab's own steps, one after the other."""

    def __init__(self, corpus: Path, precision: str, overrides: list[str]) -> None:
        settings = [*COMMON, *overrides, "training.steps=1000000", f"training.precision={precision}"]
        recipe = load_recipe("spanbert", settings)
        work, _ = build_training_spec(recipe, [WeightedCorpus.parse(str(corpus))], None)
        process = current_process("cpu", recipe.training.precision)
        self.data = work.data
        self._train_step = TrainStep(work, recipe.training, process, 1_000_000, corpus)
        self._done = 0
        self.tokens = 0

    def run(self, steps: int) -> None:
        """Train on the next steps."""
        self.tokens = 0
        for _ in range(steps):
            self.tokens += self._train_step.step(self._done, stop=False).tokens
            self._done += 1

    def data_seconds(self, steps: int) -> float:
        """The time that reading, masking and making tensors take in as many steps."""
        start = time.perf_counter()
        for number in range(self._done, self._done + steps):
            for batch in self.data.step(number, rank=0, world_size=1):
                self.data.to_device(batch, torch.device("cpu"))
        return time.perf_counter() - start


class Peer:
    """transformers' Trainer on the blocks that SpanLab trains on."""

    def __init__(self, blocks: list[list[int]], tokenizer_file: Path, precision: str, scratch: Path) -> None:
        names = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file), **names)
        config = transformers.BertConfig(
            vocab_size=30522, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
            max_position_embeddings=LENGTH,
        )  # fmt: skip
        self._model = transformers.BertForMaskedLM._from_config(config, attn_implementation="sdpa")
        self._blocks, self._precision, self._scratch = blocks, precision, scratch
        self._collator = transformers.DataCollatorForLanguageModeling(tokenizer)
        self.tokens = 0

    def run(self, steps: int) -> None:
        """Train on the next steps; what Trainer does before its first and after its last step is not counted."""
        arguments = transformers.TrainingArguments(
            output_dir=str(self._scratch), max_steps=steps, per_device_train_batch_size=BATCH, learning_rate=1e-4,
            optim="adamw_torch_fused", bf16=self._precision == "bf16", use_cpu=True, report_to=[], save_strategy="no",
            logging_strategy="no", remove_unused_columns=False, disable_tqdm=True, train_sampling_strategy="sequential",
            dataloader_pin_memory=False,
        )  # fmt: skip
        clock = Clock()
        rows = [{"input_ids": ids} for ids in self._blocks[: steps * BATCH]]
        trainer = transformers.Trainer(
            model=self._model, args=arguments, data_collator=self._collator, train_dataset=rows, callbacks=[clock]
        )
        trainer.train()
        self.seconds = clock.ended - clock.began
        self.tokens = sum(len(row["input_ids"]) for row in rows)


class Clock(transformers.TrainerCallback):  # type: ignore[misc]
    """When the first step began and the last one ended."""

    began = ended = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 (transformers' own signature)
        """Noted just before the first batch is fetched."""
        self.began = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
        """Noted after every step."""
        self.ended = time.perf_counter()


def prepare(data: Path, scratch: Path) -> tuple[Path, Path]:
    """A few novels as a prepared corpus, and the file of its tokenizer."""
    tokenizer_file = data / "tokenizers" / "bert-base-uncased" / "tokenizer.json"
    novels = sorted(unpack(data, scratch / "novels").rglob("*.txt"))[:NOVELS]
    plan = plan_preparation([str(path) for path in novels], PrepareConfig())
    run_preparation(plan, tokenizer=Tokenizer.load(tokenizer_file), out=scratch / "corpus", workers=2)
    return scratch / "corpus", tokenizer_file


def blocks_of(ours: Ours, steps: int) -> list[list[int]]:
    """The blocks of the first steps, special tokens included, as lists."""
    blocks = []
    for number in range(steps):
        for batch in ours.data.step(number, rank=0, world_size=1):
            ends = batch.lengths.cumsum()
            blocks += [ids.tolist() for ids in torch.from_numpy(batch.original_ids).tensor_split(ends[:-1].tolist())]
    return blocks


def compare(
    corpus: Path, tokenizer_file: Path, precision: str, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[Ratio]]:
    """Tokens a second of each side in one precision, each the best of its rounds, which take turns."""
    ours = Ours(corpus, precision, PLAIN_MLM)
    spans = Ours(corpus, precision, [])
    peer = Peer(blocks_of(ours, arguments.steps), tokenizer_file, precision, corpus.parent)
    rates: dict[str, list[float]] = {"spanlab": [], "spanlab spanbert": [], "Trainer": []}
    data_shares = []
    for number in range(arguments.rounds + 1):
        seconds = {}
        for name, side in (("spanlab", ours), ("spanlab spanbert", spans)):
            start = time.perf_counter()
            side.run(arguments.steps)
            seconds[name] = time.perf_counter() - start
        peer.run(arguments.steps)
        seconds["Trainer"] = peer.seconds
        if number:  # the first round warms up
            data_shares.append(ours.data_seconds(arguments.steps) / seconds["spanlab"])
            for name, tokens in (
                ("spanlab", ours.tokens),
                ("spanlab spanbert", spans.tokens),
                ("Trainer", peer.tokens),
            ):
                rates[name].append(tokens / seconds[name])
    for name, found in rates.items():
        print(f"{precision} {name:17s} {max(found):9,.0f} tokens/s", flush=True)
    what = "end-to-end pre-training (data, masks, model, optimiser), 4 layers x 256"
    named: dict[str, Any] = {
        "what": what,
        "peer": "transformers' Trainer with its MLM collator",
        "variant": precision,
    }
    ratios = [
        Ratio.of_rates(rates["spanlab"], rates["Trainer"], headline=True, **named),
        Ratio.of_rates(
            rates["spanlab spanbert"], rates["Trainer"], **{**named, "what": "the same with span masks and SBO"}
        ),
    ]
    result = {
        f"{precision}_tokens_per_second": round(max(rates["spanlab"])),
        f"{precision}_data_share": round(min(data_shares), 4),
    }
    return result, ratios


def scale(corpus: Path, scratch: Path, steps: int) -> dict[str, Any]:
    """Tokens a second of one process on one thread, and of two of them by torchrun."""
    rates = {}
    for processes in (1, 2):
        out = scratch / f"processes-{processes}"
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "-m", "spanlab"]
        settings = [
            *COMMON,
            *PLAIN_MLM,
            f"training.steps={steps}",
            "training.threads=1",
            f"training.save_every={steps}",
        ]
        arguments = ["pretrain", "spanbert", "--data", str(corpus), "--out", str(out), *settings]
        subprocess.run([*command, *arguments], check=True, capture_output=True)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
        rates[processes] = statistics.median(line["tokens_per_second"] for line in lines[2:])
        print(f"{processes} process(es) of one thread {rates[processes]:9,.0f} tokens/s", flush=True)
    return {"per_core_from_1_to_2_processes": round(rates[2] / (2 * rates[1]), 2)}


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--no-scale", action="store_true", help="leave out two processes against one")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    arguments = parser.parse_args()
    keep_freed_memory()  # for both sides alike
    result: dict[str, Any] = {}
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        corpus, tokenizer_file = prepare(data_folder(), scratch)
        for precision in arguments.precision:
            facts, found = compare(corpus, tokenizer_file, precision, arguments)
            result |= facts
            ratios += found
        if not arguments.no_scale:
            result |= scale(corpus, scratch, 5 * arguments.steps)
    print_result({**result, **circumstances()}, ratios)


if __name__ == "__main__":
    main()
