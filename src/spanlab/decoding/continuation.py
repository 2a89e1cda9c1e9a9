"""Sequences that grow token by token, and the logits of the next token of each.

Prompts of any lengths enter, and `logits` returns one row a sequence; the caller chooses tokens and appends them. With
a key-value cache every token is encoded once; without it, whole sequences are encoded again at every step, with the
same results, which tests compare.

Shapes: B sequences, N tokens, D width, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from spanlab.encoder import CausalLMHead, KeyValueCache, TransformerEncoder
from spanlab.errors import InputError


class Continuation:
    """A batch of token sequences that are being generated."""

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
        self._encoder, self._head = encoder.eval(), head.eval()
        self.sequences = [list(prompt) for prompt in prompts]
        """Prompts and the tokens appended to them."""
        table = encoder.word_table
        capacity = min(max(map(len, prompts)) + max_new_tokens, encoder.config.max_positions)
        self._cache = (
            KeyValueCache(encoder.config, len(prompts), capacity, device=table.device, dtype=table.dtype)
            if use_cache
            else None
        )
        self._unread, self._has_started = self.sequences, False
        self._prefixes = list(map(len, prompts)) if prompts_see_all else None

    def logits(self) -> Tensor:
        """(B, V) in single precision; to be called once for every token that is appended."""
        unread = self._unread if self._cache is not None else self.sequences
        device = self._encoder.word_table.device
        ids_N = torch.tensor([token for ids in unread for token in ids], device=device)
        lengths_B = torch.tensor([len(ids) for ids in unread], device=device)
        needs_prefixes = self._prefixes is not None and not (self._has_started and self._cache is not None)
        self._has_started = True
        prefixes_B = torch.tensor(self._prefixes, device=device) if needs_prefixes else None
        with torch.no_grad():
            if self._cache is not None:
                hidden_ND = self._encoder.extend(self._cache, ids_N, lengths_B, prefixes_B)
            else:
                hidden_ND = self._encoder(ids_N, lengths=lengths_B, prefix_lengths=prefixes_B).hidden
            last_BD = hidden_ND.index_select(0, torch.cumsum(lengths_B, 0) - 1)
            logits_BV: Tensor = self._head(last_BD, self._encoder.word_table).float()
        if not logits_BV.isfinite().all():
            cause = "the model's numbers overflow: its weights are too large to compute with"
            raise InputError(cause, fix="use a model of before its training diverged, or precision fp32")
        return logits_BV

    def append(self, tokens: Sequence[int]) -> None:
        """One token to each sequence."""
        self.sequences = [[*ids, token] for ids, token in zip(self.sequences, tokens, strict=True)]
        self._unread = [[token] for token in tokens]

    def select(self, rows: Sequence[int]) -> None:
        """Keep the sequences at `rows`, in that order; a row may appear several times."""
        self.sequences = [self.sequences[row] for row in rows]
        self._unread = [self._unread[row] for row in rows]
        self._prefixes = self._prefixes and [self._prefixes[row] for row in rows]
        if self._cache is not None and list(rows) != list(range(len(self._cache.lengths))):
            self._cache.select(rows)

    @property
    def max_positions(self) -> int:
        """The longest sequence that the encoder reads; one more token can be predicted."""
        return self._encoder.config.max_positions


def _check_prompts(encoder: TransformerEncoder, prompts: Sequence[Sequence[int]]) -> None:
    positions = encoder.config.max_positions
    for index, prompt in enumerate(prompts):
        name = f"prompt {index}" if len(prompts) > 1 else "the prompt"
        if not len(prompt):
            raise InputError(f"{name} has no tokens", fix="give some text to continue")
        if len(prompt) > positions:
            cause = f"{name} has {len(prompt)} tokens, but the model has {positions} positions"
            raise InputError(cause, fix="shorten it; every generated token needs a position, too")
