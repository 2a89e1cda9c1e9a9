"""Another vocabulary for a trained model: rows of tokens it knows are kept, others begin as the mean of their pieces.

A token is known when the old vocabulary has the same string, whatever its id. A new one is written out and encoded with
the old tokenizer; its row is the mean of the rows of those pieces. Output biases go the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    ids_by_token = {token: number for number, token in enumerate(old.vocabulary)}
    sources: list[list[int]] = []
    kept = 0
    for token in new.vocabulary:
        known = ids_by_token.get(token)
        kept += known is not None
        sources.append([known] if known is not None else _pieces(token, old, new))
    sizes = torch.tensor([len(pieces) for pieces in sources])
    flat = torch.tensor([piece for pieces in sources for piece in pieces])

    def rows(table: Tensor) -> Tensor:
        summed = table.new_zeros(len(sources), *table.shape[1:])
        summed.index_add_(0, torch.repeat_interleave(torch.arange(len(sources)), sizes), table[flat])
        return summed / sizes.view(-1, *[1] * (table.dim() - 1))

    with torch.no_grad():
        word = nn.Embedding(len(sources), encoder.embeddings.word.embedding_dim)
        word.weight.copy_(rows(encoder.embeddings.word.weight))
        encoder.embeddings.word = word
        encoder.config = replace(encoder.config, vocab_size=len(sources), pad_id=new.pad_id)
        for head in heads.values():
            for name in ("bias", "decoder"):
                table = getattr(head, name, None)
                if isinstance(table, nn.Parameter) and table.shape[0] == len(old.vocabulary):
                    setattr(head, name, nn.Parameter(rows(table)))
    return Transfer(kept=kept, new=len(sources) - kept)


def _pieces(token: str, old: Tokenizer, new: Tokenizer) -> list[int]:
    """The old ids of a token's text; the unknown token's where it has none."""
    number = new.vocabulary.index(token)
    pieces = old.encode(new.decode([number])).ids.tolist()
    unknown = old.unk_id if old.unk_id is not None else 0
    return pieces or [unknown]
