"""The precision a model predicts in: by the CPU's instructions, as named, or the fastest by measurement.

A measurement encodes some text in every precision that the device has, one text at a time and several together, in
turn; the best round of each counts, since whatever else a machine does can only add time. It keeps the precision that
is fastest on both counts together, never slower than fp32 on either, and whose hidden states differ from those of fp32
by at most `TOLERANCE`.

Shapes: B sequences, N tokens, D width.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from spanlab.encoder import Encoder, EncoderConfig, TransformerEncoder
from spanlab.encoder.int8 import can_use_int8, check_int8, int8_copy
from spanlab.encoder.layers import evaluating
from spanlab.errors import ConfigError
from spanlab.machine import has_bf16_instructions
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.fitted import windower_for
from spanlab.tasks.model import TaskModel
from spanlab.tasks.outputs import embedding_samples
from spanlab.training.config import Device, InferencePrecision
from spanlab.training.distributed import ProcessContext, current_process

TOLERANCE = 0.1
"""The largest difference of hidden states from those of fp32: root mean squares, difference over fp32.

The bundled reader has 0.01 in bf16 and 0.05 to 0.08 in int8, with the scores of docs/how-to/speed.md."""
SECONDS = 1.0
"""About how long a measurement takes."""
_TOKENS = 1024
"""At most so many tokens are encoded together; fewer with a model that needs longer for them."""
_PROBE = (
    "The committee met in Geneva on Tuesday to discuss the treaty on fisheries, which had been delayed for two years.",
    "She won the race in 1998.",
    "Bake the bread for forty minutes: the crust should be dark, and the loaf should sound hollow when it is tapped on "
    "the bottom. Let it cool on a rack before it is cut, or the crumb will be gummy; it keeps for three days in a "
    "linen bag, and for a month in the freezer.",
    "La commission se réunit à Genève; das Brot bleibt vierzig Minuten im Ofen. 委员会星期二在日内瓦开会。",
    "위원회는 화요일 제네바에서 회의를 열었다. The river rose again.",
)


@dataclass(frozen=True, kw_only=True)
class MeasuredPrecision:
    """How fast an encoder is in one precision, and how far from fp32."""

    single_seconds: float
    """For one text alone."""
    bulk_seconds: float
    """For several together."""
    difference: float
    """Of the hidden states; see `TOLERANCE`."""

    def speed_over(self, other: "MeasuredPrecision") -> tuple[float, float]:
        """How many times as fast as another, alone and in bulk."""
        return other.single_seconds / self.single_seconds, other.bulk_seconds / self.bulk_seconds


def process_for(model: TaskModel, device: Device, precision: InferencePrecision | None) -> ProcessContext:
    """Device and precision to predict with; raises where the device does not have the precision.

    None is bf16 where the device has instructions for it, else fp32, without measuring.
    """
    if precision is None:
        return current_process(device, "auto")
    if precision not in {"auto", "int8"}:
        return current_process(device, precision)  # type: ignore[arg-type]
    process = current_process(device, "auto")
    if precision == "int8":
        if process.device.type != "cpu":
            raise ConfigError("int8 is for CPUs", fix="use device=cpu, or precision=bf16")
        check_int8(model.encoder)
        return replace(process, precision="int8")
    # Text is generated token by token, which this does not measure; GPUs have their half precision.
    if process.device.type != "cpu" or any(head.generates for head in model.heads.values()):
        return process
    return replace(process, precision=fastest(measure_precisions(model.encoder, _probe_ids(model))))


def precisions_here(encoder: Encoder) -> tuple[Literal["fp32", "bf16", "int8"], ...]:
    """The precisions that an encoder can compute in on this CPU."""
    bf16: tuple[Literal["bf16"], ...] = ("bf16",) if has_bf16_instructions() else ()
    int8: tuple[Literal["int8"], ...] = ("int8",) if can_use_int8(encoder) else ()
    return "fp32", *bf16, *int8


def measure_precisions(
    encoder: Encoder, texts: Sequence[Tensor], *, seconds: float = SECONDS
) -> dict[Literal["fp32", "bf16", "int8"], MeasuredPrecision]:
    """The speed of each precision that this CPU has; `texts` are the ids of each text, with special tokens."""
    cpu = torch.device("cpu")
    encoders = {name: int8_copy(encoder) if name == "int8" else encoder for name in precisions_here(encoder)}
    contexts = {name: ProcessContext(device=cpu, precision=name) for name in encoders}

    def encode(name: Literal["fp32", "bf16", "int8"], chosen: Sequence[Tensor]) -> Tensor:
        with torch.no_grad(), contexts[name].autocast(), evaluating(encoders[name]):
            lengths_B = torch.tensor([len(ids) for ids in chosen])
            hidden_ND: Tensor = encoders[name](torch.cat(list(chosen)), lengths=lengths_B).hidden
        return hidden_ND.float()

    end = time.perf_counter() + seconds
    encode("fp32", texts[:1])
    alone = _timed(lambda: encode("fp32", texts[:1]))
    bulk = _fill(texts, max(2, round(seconds / 10 / alone)))
    exact_ND = encode("fp32", bulk)
    differences = {name: _difference(encode(name, bulk), exact_ND) for name in encoders}
    singles: dict[str, list[float]] = {name: [] for name in encoders}
    bulks: dict[str, list[float]] = {name: [] for name in encoders}
    while not bulks["fp32"] or time.perf_counter() < end:
        for name in encoders:
            singles[name] += [_timed(lambda name=name: encode(name, texts[:1])) for _ in range(3)]  # type: ignore[misc]
            bulks[name].append(_timed(lambda name=name: encode(name, bulk)))  # type: ignore[misc]
    return {
        name: MeasuredPrecision(
            single_seconds=min(singles[name]), bulk_seconds=min(bulks[name]), difference=differences[name]
        )
        for name in encoders
    }


def fastest(
    measured: Mapping[Literal["fp32", "bf16", "int8"], MeasuredPrecision],
) -> Literal["fp32", "bf16", "int8"]:
    """The precision to keep: within `TOLERANCE`, slower than fp32 nowhere, and the fastest of those."""
    exact = measured["fp32"]
    speeds = {name: entry.speed_over(exact) for name, entry in measured.items() if entry.difference <= TOLERANCE}
    faster = {name: math.prod(speed) for name, speed in speeds.items() if min(speed) > 1.0}
    return max(faster, key=lambda name: faster[name], default="fp32")


def measure_machine() -> dict[Literal["fp32", "bf16", "int8"], MeasuredPrecision]:
    """The same for an encoder of MiniLM's width with random weights, where there is no model yet."""
    generator = torch.Generator().manual_seed(0)
    config = EncoderConfig(vocab_size=1000, width=384, layers=2, heads=12, inner_width=1536, pooler=False)
    with torch.random.fork_rng(devices=[]):
        encoder = TransformerEncoder(config)
    lengths = torch.randint(8, 64, (16,), generator=generator).tolist()
    texts = [torch.randint(0, 1000, (length,), generator=generator) for length in lengths]
    return measure_precisions(encoder, texts)


def _probe_ids(model: TaskModel) -> list[Tensor]:
    """(T,) the ids of each text of the probe, cut to a window."""
    windower = windower_for(model.shape, model.tokenizer, TaskDataConfig())
    samples = embedding_samples(windower, _PROBE)
    return [torch.tensor(sequence.ids, dtype=torch.int64) for sample in samples for sequence in sample.sequences]


def _fill(texts: Sequence[Tensor], count: int) -> list[Tensor]:
    """The texts, repeated up to a count and to `_TOKENS`."""
    filled: list[Tensor] = []
    tokens = 0
    for index in range(count):
        text = texts[index % len(texts)]
        if filled and tokens + len(text) > _TOKENS:
            break
        filled.append(text)
        tokens += len(text)
    return filled


def _difference(hidden_ND: Tensor, exact_ND: Tensor) -> float:
    """Root mean square of the difference over that of the exact values; infinite where anything is not finite."""
    difference = float((hidden_ND - exact_ND).norm() / exact_ND.norm())
    return difference if math.isfinite(difference) else math.inf


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
