"""Sequences that grow token by token, and the logits of the next token of each.

Prompts of any lengths enter, and `logits` returns one row a sequence; the caller chooses tokens and appends them. The
tokens come from a causal encoder, which reads prompt and continuation in a row, or from a decoder over an encoder,
whose sequences begin with a start token. With a key-value cache every token is computed once; without it, whole
sequences are computed again at every step, with the same results, which tests compare.

Shapes: B sequences, N tokens, D width, E width of the word table, V vocabulary, M hidden states of the sources.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

from spanlab.encoder import CausalLMHead, Decoder, DecoderCache, KeyValueCache, Memory, TransformerEncoder
from spanlab.errors import InputError


class Continuation(ABC):
    """A batch of token sequences that are being generated."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self.sequences = [list(prompt) for prompt in prompts]
        """Prompts and the tokens appended to them."""
        self._unread = self.sequences

    def logits(self) -> Tensor:
        """(B, V) in single precision; to be called once for every token that is appended."""
        with torch.no_grad():
            logits_BV = self._compute().float()
        if not logits_BV.isfinite().all():
            cause = "the model's numbers overflow: its weights are too large to compute with"
            raise InputError(cause, fix="use a model of before its training diverged, or precision fp32")
        return logits_BV

    @abstractmethod
    def _compute(self) -> Tensor:
        """(B, V) the logits."""

    def append(self, tokens: Sequence[int]) -> None:
        """One token to each sequence."""
        self.sequences = [[*ids, token] for ids, token in zip(self.sequences, tokens, strict=True)]
        self._unread = [[token] for token in tokens]

    def select(self, rows: Sequence[int]) -> None:
        """Keep the sequences at `rows`, in that order; a row may appear several times."""
        changes = list(rows) != list(range(len(self.sequences)))
        self.sequences = [self.sequences[row] for row in rows]
        self._unread = [self._unread[row] for row in rows]
        if changes:
            self._select(rows)

    @abstractmethod
    def _select(self, rows: Sequence[int]) -> None:
        """The same for what goes with the sequences."""

    @property
    @abstractmethod
    def max_positions(self) -> int:
        """The longest sequence that the model reads; one more token can be predicted."""


def _packed(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """(N,) the ids of all sequences, and (B,) their lengths."""
    ids_N = torch.tensor([token for ids in sequences for token in ids], device=device)
    return ids_N, torch.tensor([len(ids) for ids in sequences], device=device)


class CausalContinuation(Continuation):
    """Prompts that a causal encoder continues."""

    def __init__(
        self,
        encoder: TransformerEncoder,
        head: CausalLMHead,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        use_cache: bool = True,
        prompts_see_all: bool = False,
    ) -> None:
        """With `prompts_see_all` the tokens of a prompt attend to each other in both directions."""
        _check_prompts(encoder, prompts)
        super().__init__(prompts)
        self._encoder, self._head = encoder.eval(), head.eval()
        table = encoder.word_table
        capacity = min(max(map(len, prompts)) + max_new_tokens, encoder.config.max_positions)
        self._cache = (
            KeyValueCache(encoder.config, len(prompts), capacity, device=table.device, dtype=table.dtype)
            if use_cache
            else None
        )
        self._has_started = False
        self._prefixes = list(map(len, prompts)) if prompts_see_all else None

    @override
    def _compute(self) -> Tensor:
        unread = self._unread if self._cache is not None else self.sequences
        device = self._encoder.word_table.device
        ids_N, lengths_B = _packed(unread, device)
        needs_prefixes = self._prefixes is not None and not (self._has_started and self._cache is not None)
        self._has_started = True
        prefixes_B = torch.tensor(self._prefixes, device=device) if needs_prefixes else None
        if self._cache is not None:
            hidden_ND = self._encoder.extend(self._cache, ids_N, lengths_B, prefixes_B)
        else:
            hidden_ND = self._encoder(ids_N, lengths=lengths_B, prefix_lengths=prefixes_B).hidden
        last_BD = hidden_ND.index_select(0, torch.cumsum(lengths_B, 0) - 1)
        return self._head(last_BD, self._encoder.word_table)  # type: ignore[no-any-return]

    @override
    def _select(self, rows: Sequence[int]) -> None:
        self._prefixes = self._prefixes and [self._prefixes[row] for row in rows]
        if self._cache is not None:
            self._cache.select(rows)

    @property
    @override
    def max_positions(self) -> int:
        return self._encoder.config.max_positions


class DecoderContinuation(Continuation):
    """The targets that a decoder writes for sources, each beginning with a start token."""

    def __init__(
        self,
        decoder: Decoder,
        memory: Memory,
        start: int,
        *,
        max_new_tokens: int,
        word_table_VE: Tensor | None = None,
        use_cache: bool = True,
    ) -> None:
        """`memory` has the hidden states of the sources; `word_table_VE` is for a decoder without words of its own."""
        super().__init__([[start] for _ in memory.lengths])
        self._decoder, self._memory, self._table_VE = decoder.eval(), memory, word_table_VE
        self._rows = list(range(len(memory.lengths)))
        capacity = min(1 + max_new_tokens, decoder.config.max_positions)
        self._cache = DecoderCache(decoder, memory, capacity) if use_cache else None

    @override
    def _compute(self) -> Tensor:
        device = self._memory.hidden_MA.device
        if self._cache is not None:
            ids_N, lengths_B = _packed(self._unread, device)
            features_NE = self._decoder.extend(self._cache, ids_N, lengths_B, self._table_VE)
        else:
            ids_N, lengths_B = _packed(self.sequences, device)
            features_NE = self._decoder(ids_N, lengths_B, self._memory, self._table_VE, rows=self._rows)
        last_BE = features_NE.index_select(0, torch.cumsum(lengths_B, 0) - 1)
        return self._decoder.logits(last_BE, self._table_VE)

    @override
    def _select(self, rows: Sequence[int]) -> None:
        self._rows = [self._rows[row] for row in rows]
        if self._cache is not None:
            self._cache.select(rows)

    @property
    @override
    def max_positions(self) -> int:
        return self._decoder.config.max_positions


def _check_prompts(encoder: TransformerEncoder, prompts: Sequence[Sequence[int]]) -> None:
    positions = encoder.config.max_positions
    for index, prompt in enumerate(prompts):
        name = f"prompt {index}" if len(prompts) > 1 else "the prompt"
        if not len(prompt):
            raise InputError(f"{name} has no tokens", fix="give some text to continue")
        if len(prompt) > positions:
            cause = f"{name} has {len(prompt)} tokens, but the model has {positions} positions"
            raise InputError(cause, fix="shorten it; every generated token needs a position, too")
