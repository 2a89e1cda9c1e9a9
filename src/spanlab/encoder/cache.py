"""Keys and values of earlier tokens, so that a causal encoder computes each token once.

Keys and values of new tokens go in, their attention over all tokens so far comes out. Sequences may differ in length
and in the number of new tokens. Memory is allocated once, for `capacity` tokens per sequence: a step writes into it
and copies nothing.

Shapes: B sequences, T capacity in tokens, N new tokens of all sequences in a row, Q new tokens of the longest, H heads,
W width of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from spanlab.encoder.config import EncoderConfig
from spanlab.encoder.packing import Packing
from spanlab.errors import InputError


@dataclass(frozen=True)
class CacheStep:
    """Where the new tokens of one forward pass go, the same for every layer."""

    rows_N: Tensor
    """The sequence of each new token."""
    positions_N: Tensor
    """Its position in that sequence."""
    columns_N: Tensor
    """Its index among the new tokens of that sequence."""
    sizes: tuple[int, int]
    """B, Q."""
    longest: int
    """Tokens of the longest sequence with the new ones."""
    is_first: bool
    """Whether nothing was read before, so that the new tokens attend only to each other."""
    even: bool
    """Whether every sequence has one new token and all have the same length, so that no mask is needed."""


class KeyValueCache:
    """The keys and values of B sequences in every block of a causal encoder."""

    def __init__(
        self,
        config: EncoderConfig,
        sequences: int,
        capacity: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Empty, with a capacity of `capacity` tokens for each of `sequences` sequences."""
        if not config.causal:
            cause = f"this {config.architecture} encoder is not causal, so its keys and values cannot be cached"
            raise InputError(cause, fix="use a causal one, such as gpt2")
        shape = (sequences, capacity, config.heads, config.head_width)
        blocks = range(config.layers * config.inner_layers)
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in blocks]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in blocks]
        self.lengths = [0] * sequences
        """Tokens read of each sequence."""

    @property
    def capacity(self) -> int:
        """Tokens that fit of each sequence."""
        return self.keys[0].shape[1]

    def select(self, rows: Sequence[int]) -> None:
        """Keep the sequences at `rows`, in that order; a row may appear several times, as in beam search."""
        index = torch.tensor(list(rows), device=self.keys[0].device)
        self.keys = [keys.index_select(0, index) for keys in self.keys]
        self.values = [values.index_select(0, index) for values in self.values]
        self.lengths = [self.lengths[row] for row in rows]

    def plan(self, packing: Packing) -> CacheStep:
        """Where the tokens of a packed batch go; call `advance` once they are written."""
        new = packing.sequence_lengths
        order = list(range(len(new))) if packing.order_B is None else packing.order_B.tolist()
        if len(new) != len(self.lengths):
            raise InputError(f"{len(new)} sequences are continued, and the cache holds {len(self.lengths)}")
        after = [self.lengths[row] + count for row, count in zip(order, new, strict=True)]
        if max(after) > self.capacity:
            raise InputError(f"a sequence would have {max(after)} tokens; the cache holds {self.capacity}")
        device = self.keys[0].device
        counts = torch.tensor(new)
        columns_N = torch.arange(sum(new)) - torch.repeat_interleave(torch.cumsum(counts, 0) - counts, counts)
        rows_N = torch.repeat_interleave(torch.tensor(order), counts)
        positions_N = columns_N + torch.tensor(self.lengths)[rows_N]
        return CacheStep(
            rows_N=rows_N.to(device),
            positions_N=positions_N.to(device),
            columns_N=columns_N.to(device),
            sizes=(len(new), max(new)),
            longest=max(after),
            is_first=not any(self.lengths),
            even=set(new) == {1} and len(set(after)) == 1,
        )

    def advance(self, step: CacheStep) -> None:
        """Count the tokens of a step as read."""
        for row in step.rows_N.tolist():
            self.lengths[row] += 1


@dataclass(frozen=True)
class LayerCache:
    """The part of a cache that one block reads and writes during a step."""

    keys_BTHW: Tensor
    values_BTHW: Tensor
    step: CacheStep

    def write(self, qkv_N3HW: Tensor) -> None:
        """Add the keys and values of the new tokens."""
        at = (self.step.rows_N, self.step.positions_N)
        self.keys_BTHW[at] = qkv_N3HW[:, 1].to(self.keys_BTHW.dtype)
        self.values_BTHW[at] = qkv_N3HW[:, 2].to(self.values_BTHW.dtype)

    def attend(self, q_NHW: Tensor) -> Tensor:
        """(N, D) the attention of the new tokens, which are written already, over their whole sequences."""
        step = self.step
        at = (step.rows_N, step.columns_N)
        q_BQHW = self.keys_BTHW.new_zeros(*step.sizes, *q_NHW.shape[1:])
        q_BQHW[at] = q_NHW.to(q_BQHW.dtype)
        context_BHQW = F.scaled_dot_product_attention(
            q_BQHW.transpose(1, 2),
            self.keys_BTHW[:, : step.longest].transpose(1, 2),
            self.values_BTHW[:, : step.longest].transpose(1, 2),
            attn_mask=None if step.even else self._mask(),
        )
        return context_BHQW.transpose(1, 2)[at].flatten(1).to(q_NHW.dtype)

    def _mask(self) -> Tensor:
        """(B, 1, Q, T) true at the keys that a new token attends to: itself and those before it in its sequence."""
        step = self.step
        positions_BQ = step.positions_N.new_zeros(step.sizes)
        positions_BQ[step.rows_N, step.columns_N] = step.positions_N
        return (torch.arange(step.longest, device=positions_BQ.device) <= positions_BQ[:, :, None]).unsqueeze(1)
