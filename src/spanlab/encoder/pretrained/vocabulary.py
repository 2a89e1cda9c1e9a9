"""A model's word table and its tokenizer: whether they fit, and how a model gets another vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from spanlab.encoder.model import Encoder
from spanlab.errors import InputError
from spanlab.strict_parsing import read_json
from spanlab.text import Tokenizer


def check_tokenizer_fits(folder: Path, vocab_size: int) -> None:
    """Raise if the folder's tokenizer has ids without a row in the word table."""
    size = tokenizer_size(folder)
    if size is not None and size > vocab_size:
        cause = f"the tokenizer has {size} tokens and the model's vocabulary {vocab_size}"
        raise InputError(
            cause, path=folder, fix="copy the tokenizer files that the model was trained with into the folder"
        )


def tokenizer_size(folder: Path) -> int | None:
    """The highest token id plus one of the tokenizer files in a folder; None when there are none."""
    try:
        if (folder / "tokenizer.json").is_file():
            return _json_size(read_json(folder / "tokenizer.json"))
        if (folder / "vocab.txt").is_file():
            return sum(1 for _ in (folder / "vocab.txt").open(encoding="utf-8"))
    except (UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise InputError("not a tokenizer file", path=folder, fix="download its tokenizer files again") from None
    return None


def _json_size(tokenizer: dict[str, object]) -> int:
    model, added = tokenizer["model"], tokenizer.get("added_tokens") or []
    vocab = model["vocab"]  # type: ignore[index]
    ids = range(len(vocab)) if isinstance(vocab, list) else vocab.values()  # a Unigram model lists its pieces
    return 1 + max([*ids, *(token["id"] for token in added)], default=-1)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Transfer:
    """How many tokens of a new vocabulary kept their embedding, and how many got a new one."""

    kept: int
    new: int


def transfer_vocabulary(encoder: Encoder, heads: Mapping[str, nn.Module], old: Tokenizer, new: Tokenizer) -> Transfer:
    """Give `encoder` and `heads`, in place, the vocabulary of `new`.

    A token that the old vocabulary has keeps its row; another gets the mean of the rows of its text in the old one.
    """
    sources, kept = _sources(old, new)
    sizes = torch.tensor([len(pieces) for pieces in sources])
    owners = torch.repeat_interleave(torch.arange(len(sources)), sizes)
    flat = torch.tensor([piece for pieces in sources for piece in pieces])

    def rows(table: Tensor) -> Tensor:
        summed = table.new_zeros(len(sources), *table.shape[1:])
        summed.index_add_(0, owners, table[flat])
        return summed / sizes.view(-1, *[1] * (table.dim() - 1))

    old_size = encoder.config.vocab_size  # may exceed the number of tokens of the old tokenizer
    with torch.no_grad():
        encoder.replace_word_table(rows(encoder.word_table), pad_id=new.pad_id)
        for head in heads.values():
            for name in ("bias", "decoder"):
                table = getattr(head, name, None)
                if isinstance(table, nn.Parameter) and table.shape[0] == old_size:
                    setattr(head, name, nn.Parameter(rows(table)))
    return Transfer(kept=kept, new=len(sources) - kept)


def _sources(old: Tokenizer, new: Tokenizer) -> tuple[list[list[int]], int]:
    """For each new token, the old ids whose rows are averaged; and how many tokens the old vocabulary has."""
    known = {token: index for index, token in enumerate(old.vocabulary)}
    special = {
        new.vocabulary[new_id]: old_id
        for new_id, old_id in (
            (new.pad_id, old.pad_id),
            (new.unk_id, old.unk_id),
            (new.cls_id, old.cls_id),
            (new.sep_id, old.sep_id),
            (new.mask_id, old.mask_id),
        )
        if new_id is not None and old_id is not None
    }
    sources, kept = [], 0
    for new_id, token in enumerate(new.vocabulary):
        old_id = special.get(token, known.get(token))
        kept += old_id is not None
        sources.append([old_id] if old_id is not None else _pieces(new.decode([new_id]), old))
    return sources, kept


def _pieces(text: str, old: Tokenizer) -> list[int]:
    """The old ids of a new token's text; the unknown token's id if there are none."""
    return old.encode(text).ids.tolist() or [old.unk_id if old.unk_id is not None else 0]
