"""What a ModernBERT costs as sequences get longer, beside transformers' ModernBertModel with the same weights.

    python -m benchmarks.modernbert [--rounds 2] [--longest 8192] [--plot docs/images/modernbert_length.svg]

The same number of tokens in sequences of 512 to 8,192: with attention to the whole sequence in every layer the cost of
a token grows with the length; local layers keep it nearly flat. Both sides compute the same hidden states (checked).
Also measured: SpanLab with global attention in every layer, and the attention of one local layer by itself. CPU time of
one thread. The exponents are those of a power law for the cost of a sequence: 1 is linear, 2 quadratic.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.measure import Ratio, circumstances, print_result, rounds_in_turn
from spanlab.encoder import Encoder
from spanlab.encoder.attention_kernels import attend
from spanlab.encoder.packing import Run
from spanlab.report.curves import Axis
from spanlab.report.svg import BLUE, FAINT, GREEN, PALE, RED, picture, words

LENGTHS = (512, 1024, 2048, 4096, 8192)
TOKENS = 8192
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1024}
COLOURS = {"transformers": RED, "SpanLab, every layer global": GREEN, "SpanLab": BLUE}


def main() -> None:
    """Measure and print; a ratio above 1 means that SpanLab is faster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="no sequences longer than this")
    parser.add_argument("--plot", type=Path, help="write the costs as a picture (SVG)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ours, theirs = models()
    everywhere = Encoder.from_config(replace(ours.config, global_every=1)).eval()
    seconds: dict[str, list[float]] = {name: [] for name in (*COLOURS, "local attention")}
    lengths = [length for length in LENGTHS if length <= arguments.longest]
    ratios = []
    for length in lengths:
        rounds = measure(ours, theirs, everywhere, length, arguments.rounds)
        for name, times in rounds.items():
            seconds[name].append(min(times))
        named: dict[str, Any] = {
            "what": "ModernBERT inference, 6 layers x 384, one thread",
            "variant": f"length {length}",
        }
        ratios.append(Ratio.of(rounds["SpanLab"], rounds["transformers"], peer="transformers, sdpa", **named))
        costs = ", ".join(f"{name} {1e6 * times[-1] / TOKENS:.0f}" for name, times in seconds.items())
        print(f"length {length:5d}, ms per 1,000 tokens: {costs}", flush=True)
    if arguments.plot:
        costs_per_1000 = {name: [1e6 * best / TOKENS for best in seconds[name]] for name in COLOURS}
        arguments.plot.write_text(draw(lengths, costs_per_1000), encoding="utf-8")
    print_result({**summary(lengths, seconds), **circumstances()}, ratios)


def models() -> tuple[Encoder, transformers.PreTrainedModel]:
    """Our encoder and theirs with the same random weights."""
    theirs = transformers.ModernBertModel(transformers.ModernBertConfig(vocab_size=8192, pad_token_id=0, **SHAPE))
    theirs.set_attn_implementation("sdpa")
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return Encoder.from_pretrained(folder).eval(), theirs.eval()


def measure(
    ours: Encoder, theirs: transformers.PreTrainedModel, everywhere: Encoder, length: int, rounds: int
) -> dict[str, list[float]]:
    """CPU seconds for all tokens in sequences of one length, in each round of each contender."""
    ids = torch.randint(1, 8192, (TOKENS // length, length))
    qkv_N3HW = torch.randn(TOKENS, 3, 6, 64)
    runs = (Run(TOKENS // length, length),)
    reach = (ours.config.local_window or 0) // 2
    with torch.inference_mode():
        difference = (ours(ids).hidden - theirs(input_ids=ids).last_hidden_state).abs().max().item()
        assert difference < 1e-3, f"length {length}: the hidden states differ by {difference}"
        contenders = {
            "transformers": lambda: theirs(input_ids=ids),
            "SpanLab, every layer global": lambda: everywhere(ids),
            "SpanLab": lambda: ours(ids),
            "local attention": lambda: attend(qkv_N3HW, runs, causal=False, reach=reach),
        }
        return rounds_in_turn(contenders, rounds=rounds, warmup=0, clock=time.process_time)  # the check has warmed up


def summary(lengths: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Rates by length, and the exponents of the cost of a sequence."""
    result: dict[str, float] = {}
    for length, ours in zip(lengths, seconds["SpanLab"], strict=True):
        result[f"tokens_per_second_{length}"] = round(TOKENS / ours)
    for name, times in seconds.items() if len(lengths) > 1 else ():
        slope = np.polyfit(np.log(lengths), np.log(times), 1)[0]
        result[f"exponent_{name.lower().replace(',', '').replace(' ', '_')}"] = round(1 + float(slope), 2)
    return result


def draw(lengths: Sequence[int], costs: Mapping[str, Sequence[float]]) -> str:
    """The cost of 1,000 tokens against the length of their sequence, a line for each contender."""
    width, height, left, top, bottom = 760.0, 400.0, 70.0, 60.0, 340.0
    across = Axis(low=0, high=max(lengths), begin=left, end=520.0)
    up = Axis(low=0, high=1.05 * max(map(max, costs.values())), begin=bottom, end=top)
    parts = [words(20, 28, "CPU milliseconds for 1,000 tokens", size=15)]
    for value, label in up.ticks():
        y = float(up.to_pixels(np.array([value]))[0])
        parts.append(f'<line x1="{left:g}" x2="520" y1="{y:.1f}" y2="{y:.1f}" stroke="{PALE}" stroke-width="1.5"/>')
        parts.append(words(left - 8, y + 4, label, size=12, colour=FAINT, anchor="end"))
    columns = across.to_pixels(np.array(lengths)).tolist()
    for x, length in zip(columns, lengths, strict=True):
        if length != 512:  # its label would touch the next one
            parts.append(words(x, bottom + 20, f"{length:,}", size=12, colour=FAINT, anchor="middle"))
    parts.append(words(295, bottom + 44, "tokens in a sequence", size=12, colour=FAINT, anchor="middle"))
    for name, values in costs.items():
        rows = up.to_pixels(np.array(values)).tolist()
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(columns, rows, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>')
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{COLOURS[name]}"/>'
            for a, b in zip(columns, rows, strict=True)
        ]
        parts.append(words(530, rows[-1] + 4, name, size=13, colour=COLOURS[name]))
    return picture(width, height, parts, title="Cost against length")


if __name__ == "__main__":
    main()
