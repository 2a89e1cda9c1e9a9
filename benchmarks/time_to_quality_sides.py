"""The two sides of `benchmarks.time_to_quality`, each a process of its own, and the one rule that scores both.

`python -m benchmarks.time_to_quality_sides ours|peer …` trains, scores the model on held-out text at even distances,
and prints one JSON line per score: CPU and wall seconds since the process was started, without those of scoring.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

MINI = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
LENGTH, BATCH, SCORES = 128, 32, 20
Logits = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(B, T) ids, (B, T) attention mask, (B, T) which tokens to predict -> (K, V)."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of token ids, special tokens included, one after the other."""

    ids: np.ndarray[Any, Any]
    lengths: np.ndarray[Any, Any]

    @classmethod
    def load(cls, path: Path) -> Self:
        """As `save` wrote them."""
        with np.load(path) as arrays:
            return cls(arrays["ids"], arrays["lengths"])

    def save(self, path: Path) -> None:
        """As one file of arrays."""
        np.savez(path, ids=self.ids, lengths=self.lengths)

    def rows(self) -> list[list[int]]:
        """Each block as a list."""
        return [row.tolist() for row in np.split(self.ids, self.lengths.cumsum()[:-1])]


@dataclass(frozen=True)
class HeldOut:
    """Held-out blocks with fixed masks: 15 % of their tokens, of which 80 % are masked, 10 % random, 10 % kept."""

    ids_BT: Tensor
    is_token_BT: Tensor
    targets_BT: Tensor
    """The original ids of the tokens to predict; -100 elsewhere."""

    @classmethod
    def draw(cls, blocks: Blocks, special_ids: set[int], mask_id: int, vocab_size: int) -> Self:
        """The same masks at every call."""
        rows = [torch.tensor(row) for row in blocks.rows()]
        ids_BT = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        is_token_BT = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        generator = torch.Generator().manual_seed(0)
        chosen_BT, kind_BT = (torch.rand(ids_BT.shape, generator=generator) for _ in range(2))
        random_BT = torch.randint(max(special_ids) + 1, vocab_size, ids_BT.shape, generator=generator)
        is_text_BT = is_token_BT.bool() & ~torch.isin(ids_BT, torch.tensor(sorted(special_ids)))
        is_target_BT = is_text_BT & (chosen_BT < 0.15)
        corrupted_BT = torch.where(kind_BT < 0.8, mask_id, torch.where(kind_BT < 0.9, random_BT, ids_BT))
        return cls(
            torch.where(is_target_BT, corrupted_BT, ids_BT), is_token_BT, torch.where(is_target_BT, ids_BT, -100)
        )

    def loss(self, logits: Logits) -> float:
        """The mean cross-entropy over all tokens to predict, in fp32."""
        total = 0.0
        for ids_BT, is_token_BT, targets_BT in zip(
            *(tensor.split(32) for tensor in (self.ids_BT, self.is_token_BT, self.targets_BT)), strict=True
        ):
            is_target_BT = targets_BT != -100
            with torch.inference_mode():
                logits_KV = logits(ids_BT, is_token_BT, is_target_BT).float()
            total += torch.nn.functional.cross_entropy(logits_KV, targets_BT[is_target_BT], reduction="sum").item()
        return total / int((self.targets_BT != -100).sum())


class Stopwatch:
    """CPU and wall seconds of this process since its start, without the time of scoring; prints each score."""

    def __init__(self, held_out: HeldOut, started: float, target: float) -> None:
        """`started`: the wall clock when the process was started."""
        self._held_out, self._started, self._target = held_out, started, target
        self._cpu_scoring = self._wall_scoring = 0.0

    def score(self, step: int, logits: Logits) -> float:
        """The held-out loss now."""
        cpu, wall = cpu_seconds(), time.time()
        seconds = {"cpu": self.seconds(), "wall": wall - self._started - self._wall_scoring}
        loss = self._held_out.loss(logits)
        print(json.dumps({"step": step, "loss": loss, **seconds}), flush=True)
        self._cpu_scoring += cpu_seconds() - cpu
        self._wall_scoring += time.time() - wall
        return loss

    def seconds(self) -> float:
        """CPU seconds so far."""
        return cpu_seconds() - self._cpu_scoring

    def reached(self, loss: float) -> bool:
        """Whether training may end."""
        return loss <= self._target


def cpu_seconds() -> float:
    """User and system time of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def train_ours(arguments: argparse.Namespace) -> None:
    """`spanlab pretrain roberta size=mini`, its evaluation replaced by that of the benchmark."""
    from spanlab.objectives import Mixture
    from spanlab.pretraining.recipe import load_recipe
    from spanlab.training.loop import Training
    from spanlab.workflows.pretrain import PretrainingJob, run_job

    settings = ["size=mini", "training.threads=1", f"training.steps={arguments.steps}"]
    settings += [f"training.eval_every={max(1, arguments.steps // SCORES)}"]
    settings += [f"training.save_every={max(1, arguments.steps // 20)}"]
    job = PretrainingJob(
        recipe=load_recipe("roberta", settings), data=(str(arguments.corpus),), out=str(arguments.out), overwrite=True
    )
    stopwatch = Stopwatch(load_held_out(arguments), arguments.started, arguments.target)

    def replace_evaluation(training: Training[Any], notes: tuple[str, ...]) -> None:
        model = training.spec.criterion
        assert isinstance(model, Mixture)

        def logits(ids_BT: Tensor, is_token_BT: Tensor, is_target_BT: Tensor) -> Tensor:
            hidden_BTD = model.encoder(ids_BT, attention_mask=is_token_BT).hidden
            return model.heads["mlm"](hidden_BTD[is_target_BT], model.encoder.word_table)  # type: ignore[no-any-return]

        def evaluate(process: object) -> dict[str, float]:
            return {"loss": stopwatch.score(training.progress.step, logits)}

        training.spec = replace(training.spec, evaluate=evaluate)

    run_job(job, on_start=replace_evaluation)


def train_peer(arguments: argparse.Namespace) -> None:
    """BertForMaskedLM by the Trainer of transformers, with its MLM collator and a linear schedule with warm-up."""
    import transformers

    from spanlab.training.malloc import keep_freed_memory

    keep_freed_memory()  # as SpanLab does for itself
    torch.manual_seed(0)
    tokenizer = peer_tokenizer(arguments.corpus)
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=LENGTH, **MINI)
    model = transformers.BertForMaskedLM._from_config(config, attn_implementation="sdpa")
    specials = set(tokenizer.all_special_ids)
    rows = [
        {"input_ids": ids, "special_tokens_mask": [int(token in specials) for token in ids]}
        for ids in Blocks.load(arguments.blocks).rows()
    ]
    stopwatch = Stopwatch(load_held_out(arguments), arguments.started, arguments.target)
    every = max(1, arguments.steps // SCORES)

    def logits(ids_BT: Tensor, is_token_BT: Tensor, is_target_BT: Tensor) -> Tensor:
        hidden_BTD = model.bert(input_ids=ids_BT, attention_mask=is_token_BT).last_hidden_state
        return model.cls(hidden_BTD[is_target_BT])  # type: ignore[no-any-return]

    class Scores(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: object, state: Any, control: Any, **_: object) -> None:  # noqa: ANN401
            if not arguments.trial and (state.global_step % every == 0 or state.global_step == arguments.steps):
                model.eval()
                reached = stopwatch.reached(stopwatch.score(state.global_step, logits))
                model.train()
                control.should_training_stop |= reached or stopwatch.seconds() > 60 * arguments.cap_minutes

    options = transformers.TrainingArguments(
        output_dir=str(arguments.out), max_steps=arguments.steps, per_device_train_batch_size=BATCH,
        learning_rate=arguments.lr, lr_scheduler_type="linear", warmup_steps=arguments.steps // 10, weight_decay=0.01,
        optim="adamw_torch_fused", bf16=arguments.precision == "bf16", use_cpu=True, report_to=[], save_strategy="no",
        logging_strategy="no", remove_unused_columns=False, disable_tqdm=True, train_sampling_strategy="sequential",
        dataloader_pin_memory=False,
    )  # fmt: skip
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    trainer = transformers.Trainer(
        model=model, args=options, data_collator=collator, train_dataset=rows, callbacks=[Scores()]
    )
    start = cpu_seconds()
    trainer.train()
    if arguments.trial:
        print(json.dumps({"step": arguments.steps, "cpu": cpu_seconds() - start}), flush=True)


def peer_tokenizer(corpus: Path) -> Any:  # noqa: ANN401 (a transformers tokenizer)
    """The corpus's tokenizer as transformers loads it."""
    import transformers

    names = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(corpus / "tokenizer" / "tokenizer.json"), **names)


def load_held_out(arguments: argparse.Namespace) -> HeldOut:
    """The text and masks that both sides are scored on."""
    tokenizer = peer_tokenizer(arguments.corpus)
    blocks = Blocks.load(arguments.held_out)
    return HeldOut.draw(blocks, set(tokenizer.all_special_ids), tokenizer.mask_token_id, len(tokenizer))


def parse() -> argparse.Namespace:
    """One side and its options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.time_to_quality_sides")
    parser.add_argument("side", choices=("ours", "peer"))
    for name in ("corpus", "held-out", "blocks", "out"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--cap-minutes", type=float, default=25.0)
    for name in ("target", "started"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--trial", action="store_true", help="no scores, only the time of the steps")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    {"ours": train_ours, "peer": train_peer}[arguments.side](arguments)
