"""Cross-attention: tokens of one sequence attend to the hidden states of another, as in the decoder of Vaswani et al.

Queries enter packed, N tokens in a row, and so does the memory they read, M hidden states of an encoder; (N, D) leaves.
Linear layers run on the packed tokens. Only queries, keys and values are laid out with padding, since both lengths
differ from sequence to sequence and few sequences share both: the padding costs little beside the linear layers.

In decoding, the beams of a source are further queries to the same memory, so that it is never copied for them.

Shapes: B sequences of the memory, S length of the longest, M its tokens; Q most queries of a sequence, N queries;
D width, A width of the memory, H heads, W width of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spanlab.encoder.attention_kernels import by_matmul, matmul_is_faster
from spanlab.errors import InputError


@dataclass(frozen=True)
class Memory:
    """The hidden states of an encoder, packed, and their places in a padded layout."""

    hidden_MA: Tensor
    rows_M: Tensor
    columns_M: Tensor
    """The sequence of each state, and its position in it."""
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, hidden_MA: Tensor, lengths: Sequence[int]) -> "Memory":
        """Of packed sequences."""
        if sum(lengths) != len(hidden_MA) or min(lengths, default=0) < 1:
            raise InputError(f"a memory of {len(hidden_MA)} states, and sequences of {sum(lengths)} tokens")
        rows_M, columns_M = _places(lengths, hidden_MA.device)
        return cls(hidden_MA, rows_M, columns_M, tuple(lengths))

    def padded(self, x_MHW: Tensor) -> Tensor:
        """(B, H, S, W) from keys or values of every state; zero at padding."""
        x_BSHW = x_MHW.new_zeros(len(self.lengths), max(self.lengths), *x_MHW.shape[1:])
        return x_BSHW.index_put((self.rows_M, self.columns_M), x_MHW).transpose(1, 2)

    def mask(self) -> Tensor | None:
        """(B, 1, 1, S) true at states; None without padding."""
        if len(set(self.lengths)) == 1:
            return None
        device = self.hidden_MA.device
        lengths_B = torch.tensor(self.lengths, device=device)
        return (torch.arange(max(self.lengths), device=device) < lengths_B[:, None])[:, None, None]


@dataclass(frozen=True)
class Queries:
    """Which sequence of the memory each of N packed tokens reads."""

    rows_N: Tensor
    columns_N: Tensor
    """The sequence, and the index of the token among those that read it."""
    most: int
    """Q."""

    @classmethod
    def of(cls, counts: Sequence[int], rows: Sequence[int], device: torch.device) -> "Queries":
        """Of packed runs of tokens: `counts` tokens, one run after the other, read the sequences `rows`."""
        read, places = dict.fromkeys(rows, 0), []
        for row, count in zip(rows, counts, strict=True):
            places.append(range(read[row], read[row] + count))
            read[row] += count
        columns_N = torch.tensor([column for place in places for column in place], device=device)
        rows_N = torch.repeat_interleave(torch.tensor(rows, device=device), torch.tensor(counts, device=device))
        return cls(rows_N, columns_N, max(read.values()))


@dataclass
class LayerMemory:
    """The keys and values of a memory in one block, computed when they are first needed."""

    keys_values: tuple[Tensor, Tensor] | None = None
    """Each (B, H, S, W)."""

    def select(self, rows_B: Tensor, longest: int) -> None:
        """Keep some sequences of the memory, the longest of which has `longest` states."""
        if self.keys_values is not None:
            keys, values = self.keys_values
            self.keys_values = (keys[rows_B, :, :longest], values[rows_B, :, :longest])


@dataclass(frozen=True)
class CrossContext:
    """What cross-attention needs beside the hidden states of the queries."""

    memory: Memory
    queries: Queries
    layer: LayerMemory | None = None
    """Keeps the keys and values of this block for later tokens; None: computed anew."""
    mask: Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", self.memory.mask())


class CrossAttention(nn.Module):
    """Every query attends to all hidden states of its sequence of the memory."""

    def __init__(self, width: int, heads: int, *, memory_width: int, dropout: float) -> None:
        """`memory_width` is that of the encoder, which may differ from the decoder's."""
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(memory_width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x_ND: Tensor, context: CrossContext) -> Tensor:
        """(N, D) in and out."""
        return self.output(self.mix(x_ND, context))  # type: ignore[no-any-return]

    def mix(self, x_ND: Tensor, context: CrossContext) -> Tensor:
        """(N, D) the weighted sums of the values, before the output projection."""
        queries = context.queries
        k_BHSW, v_BHSW = self._keys_values(context)
        q_NHW = self.query(x_ND).view(len(x_ND), self.heads, -1)
        at = (queries.rows_N, queries.columns_N)
        q_BQHW = q_NHW.new_zeros(len(k_BHSW), queries.most, *q_NHW.shape[1:]).index_put(at, q_NHW)
        q_BHQW = q_BQHW.transpose(1, 2)
        dropout_p = self.dropout if self.training else 0.0
        with torch.autocast(x_ND.device.type, enabled=False):
            if dropout_p > 0.0 or matmul_is_faster(q_BHQW, k_BHSW.shape[2]):
                mixed_BHQW, _ = by_matmul(q_BHQW, k_BHSW, v_BHSW, mask=context.mask, dropout_p=dropout_p)
            else:
                mixed_BHQW = F.scaled_dot_product_attention(q_BHQW, k_BHSW, v_BHSW, attn_mask=context.mask)
        return mixed_BHQW.transpose(1, 2)[at].flatten(1)

    def _keys_values(self, context: CrossContext) -> tuple[Tensor, Tensor]:
        if context.layer is not None and context.layer.keys_values is not None:
            return context.layer.keys_values
        memory = context.memory
        kv_M2HW = self.key_value(memory.hidden_MA).view(len(memory.hidden_MA), 2, self.heads, -1)
        keys_values = memory.padded(kv_M2HW[:, 0]), memory.padded(kv_M2HW[:, 1])
        if context.layer is not None:
            context.layer.keys_values = keys_values
        return keys_values


def _places(lengths: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The sequence and the position of every token of packed sequences."""
    lengths_B = torch.tensor(list(lengths), device=device)
    rows_N = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths_B)
    starts_B = torch.cumsum(lengths_B, 0) - lengths_B
    return rows_N, torch.arange(len(rows_N), device=device) - starts_B[rows_N]
