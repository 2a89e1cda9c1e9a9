"""The encoder compared with transformers' BERT (sdpa) in one run: an MLM training step, and inference, full and ragged.

    python -m benchmarks.encoder [--rounds 5] [--profile]

Training: 4 layers x 256, vocabulary 30,522, 15 % of the tokens predicted, batch 32 x 128, fused AdamW, published
dropout (0.1) on both sides, and once more without dropout. transformers is used as its documentation says: labels -100
where nothing is predicted, an attention mask, autocast for bf16. Inference: 6 layers x 384 (MiniLM's shape) on a full
batch, and on ragged batches of 40 % mean fill that transformers gets padded to the longest.
"""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchmarks.measure import Ratio, circumstances, gemm_rate, print_result, rounds_in_turn
from spanlab.encoder import EncoderConfig, MaskedLMHead, TransformerEncoder
from spanlab.encoder.flops import flops_per_token
from spanlab.objectives import project

VOCAB, BATCH, LENGTH = 30_522, 32, 128
TRAINED = {"width": 256, "layers": 4, "heads": 4, "inner_width": 1024}
SERVED = {"width": 384, "layers": 6, "heads": 12, "inner_width": 1536}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
PEER = f"transformers {transformers.__version__}, sdpa"


def peer_config(shape: dict[str, int], dropout: float) -> transformers.BertConfig:
    """The same shape as a transformers config."""
    return transformers.BertConfig(
        vocab_size=VOCAB,
        hidden_size=shape["width"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=shape["inner_width"],
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        attn_implementation="sdpa",
    )


def autocast(precision: str) -> AbstractContextManager[Any]:
    """bf16 autocast, or nothing."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext()


class TrainingStep:
    """One optimiser step of a model on a fixed batch."""

    def __init__(self, model: nn.Module, loss: Callable[[], Tensor], precision: str) -> None:
        self.loss, self.precision = loss, precision
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def __call__(self) -> None:
        """Forward, backward and one step of the optimiser."""
        with autocast(self.precision):
            loss = self.loss()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def training_steps(dropout: float, precision: str) -> dict[str, TrainingStep]:
    """The same masked batch for both."""
    torch.manual_seed(0)
    ids = torch.randint(1000, VOCAB, (BATCH, LENGTH))
    masked = torch.rand(BATCH, LENGTH) < 0.15
    everything = torch.ones_like(ids)
    labels = ids.where(masked, -100)
    targets, positions = ids[masked], masked.flatten().nonzero().squeeze(1)
    config = EncoderConfig(
        vocab_size=VOCAB,
        dropout=dropout,
        attention_dropout=dropout,
        pooler=False,
        **TRAINED,  # type: ignore[arg-type]
    )
    encoder, head = TransformerEncoder(config), MaskedLMHead(config)
    ours = nn.ModuleDict({"encoder": encoder, "head": head}).train()
    theirs = transformers.BertForMaskedLM(peer_config(TRAINED, dropout)).train()

    def our_loss() -> Tensor:
        hidden_KD = encoder(ids).hidden.flatten(0, 1)[positions]
        return project(head.features(hidden_KD), encoder.word_table, head.bias, targets).total / len(targets)

    return {
        "spanlab": TrainingStep(ours, our_loss, precision),
        "transformers": TrainingStep(
            theirs, lambda: theirs(input_ids=ids, attention_mask=everything, labels=labels).loss, precision
        ),
    }


def training_flops() -> float:
    """The minimum of multiplications and additions in one of our training steps."""
    config = EncoderConfig(vocab_size=VOCAB, **TRAINED)  # type: ignore[arg-type]
    encoder = BATCH * LENGTH * flops_per_token(config, LENGTH)
    head = 0.15 * BATCH * LENGTH * 2 * config.width * (VOCAB + config.width)
    return 3 * (encoder + head)


def measure_training(rounds: int) -> tuple[dict[str, float], list[Ratio]]:
    """Shares of the machine's matrix speed and ratios for each precision, with and without dropout."""
    result: dict[str, float] = {}
    ratios = []
    for precision, dtype in DTYPES.items():
        rate = gemm_rate(dtype)
        for dropout in (0.1, 0.0):
            times = rounds_in_turn(training_steps(dropout, precision), rounds)
            name = "" if dropout else ", no dropout"
            what = f"MLM training step, 4 layers x 256, vocabulary {VOCAB:,}{name}"
            ratio = Ratio.of(
                times["spanlab"],
                times["transformers"],
                what=what,
                variant=precision,
                peer=PEER,
                headline=bool(dropout),
            )
            seconds = min(times["spanlab"])
            share = training_flops() / seconds / rate
            print(
                f"training, {precision}{name}: spanlab {seconds * 1e3:.0f} ms, transformers "
                f"{min(times['transformers']) * 1e3:.0f} ms, {ratio.ratio:.2f}x "
                f"({share:.0%} of the GEMM rate, {rate / 1e9:.0f} GFLOPS)",
                flush=True,
            )
            ratios.append(ratio)
            result[f"train_{precision}{'' if dropout else '_no_dropout'}_gemm_share"] = round(share, 3)
    return result, ratios


def ragged_lengths(mean_fill: float = 0.4, count: int = BATCH) -> Tensor:
    """Lengths of which one fills the batch's width, the others are uniform, and the mean is `mean_fill` of it."""
    torch.manual_seed(1)
    rest = round(mean_fill * count * LENGTH) - LENGTH
    lengths = torch.rand(count - 1) * rest
    lengths = (4 + lengths / lengths.sum() * (rest - 4 * (count - 1))).long()
    return torch.cat([torch.tensor([LENGTH]), lengths])


def inference_runs(precision: str, lengths: Tensor) -> dict[str, Callable[[], object]]:
    """Both encoders on the same padded batch of sequences of these lengths."""
    dtype = DTYPES[precision]
    ours = TransformerEncoder(EncoderConfig(vocab_size=VOCAB, pooler=False, **SERVED)).eval().to(dtype)  # type: ignore[arg-type]
    theirs = transformers.BertModel(peer_config(SERVED, 0.0), add_pooling_layer=False).eval().to(dtype)
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    ids = torch.randint(1000, VOCAB, mask.shape) * mask
    return {
        "spanlab": lambda: ours(ids, attention_mask=mask),
        "transformers": lambda: theirs(input_ids=ids, attention_mask=mask),
    }


def measure_inference(rounds: int) -> list[Ratio]:
    """Ratios on full and on ragged batches, for each precision."""
    ratios = []
    for precision in DTYPES:
        for kind, lengths in (("full", torch.full((BATCH,), LENGTH)), ("ragged", ragged_lengths())):
            with torch.inference_mode():
                times = rounds_in_turn(inference_runs(precision, lengths), rounds)
            what = f"inference, 6 layers x 384, {kind} batches{', 40 % full' if kind == 'ragged' else ''}"
            ratio = Ratio.of(
                times["spanlab"], times["transformers"], what=what, variant=precision, peer=PEER, headline=True
            )
            print(
                f"{what}, {precision}: spanlab {min(times['spanlab']) * 1e3:.0f} ms, transformers "
                f"{min(times['transformers']) * 1e3:.0f} ms, {ratio.ratio:.2f}x",
                flush=True,
            )
            ratios.append(ratio)
    return ratios


def print_profile() -> None:
    """Where the time of our training step goes, by operation."""
    from torch.profiler import ProfilerActivity, profile

    step = training_steps(0.1, "fp32")["spanlab"]
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=20, max_name_column_width=40))


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="also show where the time of a training step goes")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    about = circumstances()
    print(about)
    result, ratios = measure_training(arguments.rounds)
    ratios += measure_inference(3 * arguments.rounds)
    if arguments.profile:
        print_profile()
    print_result({**result, **about}, ratios)


if __name__ == "__main__":
    main()
