"""Another vocabulary for a trained model: rows of tokens it knows are kept, others begin as the mean of their pieces.

A token is known when the old vocabulary has the same string, whatever its id, or when it plays the same part there
([MASK] and <mask>). A new one is written out and encoded with the old tokenizer; its row is the mean of the rows of
those pieces. Output biases go the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spanlab.encoder.model import Encoder
from spanlab.text import Tokenizer


@dataclass(frozen=True)
class Transfer:
    """What became of the vocabulary."""

    kept: int
    new: int


def transfer_vocabulary(encoder: Encoder, heads: Mapping[str, nn.Module], old: Tokenizer, new: Tokenizer) -> Transfer:
    """Give `encoder` and `heads`, in place, the vocabulary of `new`."""
    sources, kept = _sources(old, new)
    sizes = torch.tensor([len(pieces) for pieces in sources])
    owners = torch.repeat_interleave(torch.arange(len(sources)), sizes)
    flat = torch.tensor([piece for pieces in sources for piece in pieces])

    def rows(table: Tensor) -> Tensor:
        summed = table.new_zeros(len(sources), *table.shape[1:])
        summed.index_add_(0, owners, table[flat])
        return summed / sizes.view(-1, *[1] * (table.dim() - 1))

    before = encoder.config.vocab_size  # may be more than the old tokenizer has tokens
    with torch.no_grad():
        encoder.replace_word_table(rows(encoder.word_table), pad_id=new.pad_id)
        for head in heads.values():
            for name in ("bias", "decoder"):
                table = getattr(head, name, None)
                if isinstance(table, nn.Parameter) and table.shape[0] == before:
                    setattr(head, name, nn.Parameter(rows(table)))
    return Transfer(kept=kept, new=len(sources) - kept)


def _sources(old: Tokenizer, new: Tokenizer) -> tuple[list[list[int]], int]:
    """The old ids that each new token's row is the mean of, and how many tokens were known."""
    known = {token: number for number, token in enumerate(old.vocabulary)}
    parts = {
        new.vocabulary[ours]: theirs
        for ours, theirs in (
            (new.pad_id, old.pad_id),
            (new.unk_id, old.unk_id),
            (new.cls_id, old.cls_id),
            (new.sep_id, old.sep_id),
            (new.mask_id, old.mask_id),
        )
        if ours is not None and theirs is not None
    }
    sources, kept = [], 0
    for number, token in enumerate(new.vocabulary):
        same = parts.get(token, known.get(token))
        kept += same is not None
        sources.append([same] if same is not None else _pieces(new.decode([number]), old))
    return sources, kept


def _pieces(text: str, old: Tokenizer) -> list[int]:
    """The old ids of a new token's text; the unknown token's where it has none."""
    return old.encode(text).ids.tolist() or [old.unk_id if old.unk_id is not None else 0]
