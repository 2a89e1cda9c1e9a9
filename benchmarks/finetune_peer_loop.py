"""The plain transformers loop itself: a process that trains on one task and then predicts.

It runs in a separate process, because the allocator settings that SpanLab chooses apply to a whole process, and
because two sides in one process would share what either leaves in memory.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.finetune_peer import Peer, half_precision
from spanlab.tasks.base import AnyTask
from spanlab.training.config import TrainingConfig
from spanlab.training.schedules import learning_rate_factor


def peer_optimiser(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW without decay for norms and biases."""
    named = list(model.named_parameters())
    plain = [weight for name, weight in named if "LayerNorm" in name or name.endswith("bias")]
    decayed = [weight for name, weight in named if not ("LayerNorm" in name or name.endswith("bias"))]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, fused=True)


def peer_step(model: torch.nn.Module, optimiser: torch.optim.Optimizer, loss: torch.Tensor, lr: float) -> None:
    """One update."""
    for group in optimiser.param_groups:
        group["lr"] = lr
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad()


@dataclass(frozen=True, kw_only=True)
class PeerLesson:
    """The inputs of the plain loop."""

    peer: type[Peer]
    folder: Path
    task: AnyTask
    train: Sequence[Any]
    dev: Sequence[Any]
    training: TrainingConfig
    epochs: float
    batch: int
    threads: int
    seed: int


@dataclass(frozen=True)
class Taught:
    """What the process keeps between two calls."""

    lesson: PeerLesson
    peer: Peer
    network: Any


_taught: list[Taught] = []


def fit(lesson: PeerLesson) -> tuple[float, float]:
    """Shuffled batches, padded to their longest, bf16 autocast; the score on dev, and the seconds of the steps."""
    torch.set_num_threads(lesson.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    transformers.set_seed(lesson.seed)
    peer = lesson.peer(lesson.folder, lesson.task)
    network = peer.build().train()
    seconds = _train(peer, network, lesson)
    _taught[:] = [Taught(lesson, peer, network)]
    return peer.score(lesson.dev, answer(len(lesson.dev), lesson.batch)), seconds


def _train(peer: Peer, network: Any, lesson: PeerLesson) -> float:  # noqa: ANN401 (a transformers model)
    features = peer.features(lesson.train)
    total = round(-(-len(features) // lesson.batch) * lesson.epochs)
    optimiser = peer_optimiser(network, lesson.training.lr)
    order = torch.Generator().manual_seed(lesson.seed)
    batches: list[torch.Tensor] = []
    began = time.perf_counter()
    for step in range(total):
        batches = batches or list(torch.randperm(len(features), generator=order).split(lesson.batch))
        batch = peer.labelled([features[i] for i in batches.pop(0).tolist()])
        with half_precision():
            loss = peer.loss(network, batch)
        peer_step(network, optimiser, loss, lesson.training.lr * learning_rate_factor(step, total, lesson.training))
    return time.perf_counter() - began


def answer(count: int, batch_size: int) -> list[Any]:
    """From text to answers, for the first examples of dev."""
    (taught,) = _taught
    return taught.peer.predict(taught.network, taught.lesson.dev[:count], batch_size=batch_size)
