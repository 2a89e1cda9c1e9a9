"""A training step of SpanBERT's two objectives, MLM + SBO, with logits where a target is and with logits everywhere.

    python -m benchmarks.objectives [--rounds 5] [--precision fp32|bf16]

4 layers x 256, vocabulary 30,522, batch 32 x 128, 15 % of the tokens masked in spans, published dropout, fused AdamW.
One encoder and one pair of heads, three ways to their losses:

- `spanlab`: the objectives of the library: hidden states gathered first, the vocabulary projected in chunks;
- `gathered`: hidden states gathered first, all of their logits at once, torch's cross-entropy;
- `everywhere`: as SpanBERT's released code does it: MLM logits at every position, SBO logits at 20 slots of as many
  spans a sequence as the fullest one has, and a cross-entropy that ignores the empty ones.

Time is the best of several rounds in turn. Memory is how much the peak of a fresh process grows over three steps.
"""

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.encoder import BATCH, LENGTH, TRAINED, VOCAB, TrainingStep
from benchmarks.measure import Ratio, circumstances, print_result, rounds_in_turn
from spanlab.corruption.examples import ExampleBatch, SpanBoundaries
from spanlab.encoder import EncoderConfig, MaskedLMHead, SpanBoundaryHead, TransformerEncoder
from spanlab.objectives import MaskedLM, Mixture, SpanBoundary, TensorBatch, encode

CLS, SEP, MASK, FIRST_WORD = 101, 102, 103, 1000
WAYS = ("spanlab", "gathered", "everywhere")


def masked_flags(rng: np.random.Generator) -> np.ndarray:
    """(B, T) 15 % of each sequence, in spans whose lengths are geometric (p = 0.2) up to 10."""
    lengths = np.arange(1, 11)
    law = 0.2 * 0.8 ** (lengths - 1)
    masked = np.zeros((BATCH, LENGTH), dtype=bool)
    for row in masked:
        budget = int(np.ceil(0.15 * (LENGTH - 2)))
        while row.sum() < budget:
            start = int(rng.integers(1, LENGTH - 1))
            length = min(int(rng.choice(lengths, p=law / law.sum())), budget - int(row.sum()), LENGTH - 1 - start)
            row[start : start + length] = True
    return masked


def span_batch() -> ExampleBatch:
    """Random tokens between [CLS] and [SEP], all masked ones replaced by [MASK]."""
    rng = np.random.default_rng(0)
    ids = rng.integers(FIRST_WORD, VOCAB, (BATCH, LENGTH))
    ids[:, 0], ids[:, -1] = CLS, SEP
    original, masked = ids.ravel(), masked_flags(rng).ravel()
    positions = np.flatnonzero(masked)
    # A span begins where the token before is not masked; [CLS] and [SEP] keep spans of neighbours apart.
    starts, stops = np.flatnonzero(masked & ~np.roll(masked, 1)), np.flatnonzero(masked & ~np.roll(masked, -1))
    sizes = stops - starts + 1
    first, last = np.repeat(starts, sizes), np.repeat(stops, sizes)
    return ExampleBatch(
        indices=np.arange(BATCH),
        input_ids=np.where(masked, MASK, original),
        original_ids=original,
        lengths=np.full(BATCH, LENGTH),
        positions=positions,
        targets=original[positions],
        boundaries=SpanBoundaries(
            positions=positions,
            targets=original[positions],
            left=first - 1,
            right=last + 1,
            first=first,
            last=last,
            offsets=positions - first,
        ),
    )


def gathered_loss(model: Mixture, batch: TensorBatch) -> Tensor:
    """Logits of all predicted tokens at once."""
    boundaries = batch.boundaries
    assert boundaries is not None
    encoded, mlm, sbo = encode(model.encoder, batch), model.heads["mlm"], model.heads["sbo"]
    hidden, table = encoded.hidden_ND, encoded.word_table_VE
    mlm_logits = mlm(hidden[batch.positions], table)
    sbo_logits = sbo(hidden[boundaries.left], hidden[boundaries.right], boundaries.offsets, table)
    return F.cross_entropy(mlm_logits.float(), batch.targets) + F.cross_entropy(sbo_logits.float(), boundaries.targets)


class Everywhere:
    """Logits at every position and at every slot of every span, most of them ignored."""

    def __init__(self, batch: TensorBatch, slots: int) -> None:
        boundaries = batch.boundaries
        assert boundaries is not None
        self.labels_N = torch.full_like(batch.input_ids, -100)
        self.labels_N[batch.positions] = batch.targets
        begins = boundaries.offsets == 0
        sequence = (boundaries.left[begins] // LENGTH).tolist()
        most = max(sequence.count(row) for row in range(BATCH))
        rank = torch.tensor([sequence[:place].count(row) for place, row in enumerate(sequence)])
        slot_P = torch.tensor(sequence) * most + rank
        self.offsets = torch.arange(slots).repeat(BATCH * most)
        self.left, self.right = (torch.zeros(BATCH * most, dtype=torch.long) for _ in range(2))
        self.left[slot_P], self.right[slot_P] = boundaries.left[begins], boundaries.right[begins]
        self.targets = torch.full((BATCH * most, slots), -100)
        self.targets[slot_P[torch.cumsum(begins, 0) - 1], boundaries.offsets] = boundaries.targets
        self.slots = slots

    def loss(self, model: Mixture, batch: TensorBatch) -> Tensor:
        """The two losses over all of them."""
        encoded, mlm, sbo = encode(model.encoder, batch), model.heads["mlm"], model.heads["sbo"]
        hidden, table = encoded.hidden_ND, encoded.word_table_VE
        sides = [hidden[side].repeat_interleave(self.slots, dim=0) for side in (self.left, self.right)]
        sbo_logits = sbo(*sides, self.offsets, table)
        return F.cross_entropy(mlm(hidden, table).float(), self.labels_N) + F.cross_entropy(
            sbo_logits.float(), self.targets.flatten()
        )


def training_step(way: str, precision: str, dropout: float = 0.1) -> TrainingStep:
    """A step of the same model on the same batch, by one of the methods."""
    torch.manual_seed(0)
    config = EncoderConfig(
        vocab_size=VOCAB,
        dropout=dropout,
        attention_dropout=dropout,
        pooler=False,
        **TRAINED,  # type: ignore[arg-type]
    )
    heads = MaskedLMHead(config), SpanBoundaryHead(config.width, VOCAB)
    model = Mixture(
        TransformerEncoder(config), [MaskedLM(heads[0]), SpanBoundary(heads[1])], {"mlm": 1.0, "sbo": 1.0}
    ).train()
    batch = TensorBatch.from_examples(span_batch())
    losses: dict[str, Callable[[], Tensor]] = {
        "spanlab": lambda: model(batch).value,
        "gathered": lambda: gathered_loss(model, batch),
    }
    if way == "everywhere":
        everywhere = Everywhere(batch, slots=heads[1].config.max_span or 0)
        losses["everywhere"] = lambda: everywhere.loss(model, batch)
    return TrainingStep(model, losses[way], precision)


def peak_growth(way: str, precision: str) -> float:
    """MB by which three steps raise the peak memory of this process."""
    step = training_step(way, precision)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def peak_in_a_process(way: str, arguments: argparse.Namespace) -> float:
    """The same in a fresh process, where nothing else has raised the peak before."""
    options = ["--precision", arguments.precision, "--threads", str(arguments.threads), "--memory-of", way]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.objectives", *options], check=True, capture_output=True, text=True
    )
    return float(json.loads(done.stdout))


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--memory-of", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.memory_of:
        print(json.dumps(peak_growth(arguments.memory_of, arguments.precision)))
        return
    about = circumstances()
    print(about)
    # First, while this process is still small: on Linux a child begins with its parent's peak.
    memory = {way: peak_in_a_process(way, arguments) for way in WAYS}
    losses = [training_step(way, "fp32", dropout=0.0).loss().item() for way in WAYS]
    assert np.ptp(losses) < 1e-4, f"the ways disagree: {dict(zip(WAYS, losses, strict=True))}"
    seconds = rounds_in_turn({way: training_step(way, arguments.precision) for way in WAYS}, arguments.rounds)
    result: dict[str, float] = {}
    ratios = []
    peers = {"gathered": "all logits of gathered positions at once", "everywhere": "logits at every position"}
    for way in WAYS:
        best = min(seconds[way])
        print(f"{way:12s} {best * 1e3:7.0f} ms a step   {memory[way]:7.0f} MB more at the peak", flush=True)
        result |= {f"ms_{way}": round(best * 1e3), f"mb_{way}": round(memory[way])}
        if way in peers:
            what = "MLM + span boundary step"
            named: dict[str, Any] = {"what": what, "peer": peers[way], "variant": arguments.precision}
            headline = way == "everywhere"
            ratios.append(Ratio.of(seconds["spanlab"], seconds[way], headline=headline, **named))
            ratios.append(Ratio.of([memory["spanlab"]], [memory[way]], quantity="memory", headline=headline, **named))
    predicted = len(span_batch().positions)
    print_result({**result, "precision": arguments.precision, "predicted_tokens": predicted, **about}, ratios)


if __name__ == "__main__":
    main()
