"""Whether the tokenizer beside a model fits the model's word table."""

import json
from pathlib import Path

from spanlab.errors import InputError


def check_tokenizer_fits(folder: Path, vocab_size: int) -> None:
    """Refuse a folder whose tokenizer can yield ids that the word table has no row for."""
    size = tokenizer_size(folder)
    if size is not None and size > vocab_size:
        cause = f"the tokenizer has {size} tokens and the model's vocabulary {vocab_size}"
        raise InputError(cause, path=folder, fix="put the tokenizer the model was trained with beside it")


def tokenizer_size(folder: Path) -> int | None:
    """The highest token id plus one of the tokenizer files in a folder; None when there are none."""
    try:
        if (folder / "tokenizer.json").is_file():
            return _json_size(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")))
        if (folder / "vocab.txt").is_file():
            return sum(1 for _ in (folder / "vocab.txt").open(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise InputError("not a tokenizer file", path=folder, fix="fetch its tokenizer files again") from None
    return None


def _json_size(tokenizer: dict[str, object]) -> int:
    model, added = tokenizer["model"], tokenizer.get("added_tokens") or []
    vocab = model["vocab"]  # type: ignore[index]
    ids = range(len(vocab)) if isinstance(vocab, list) else vocab.values()  # a Unigram model lists its pieces
    return 1 + max([*ids, *(token["id"] for token in added)], default=-1)  # type: ignore[attr-defined]
