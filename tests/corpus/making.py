"""A small tokenizer, corpora of any shape written through the whole pipeline, and a way to compare folders."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.text import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def letters_tokenizer() -> Tokenizer:
    """WordPiece over single letters: a word of n letters has n tokens, so tests can write any lengths they need."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = {
        token: index for index, token in enumerate([*SPECIAL, *".,!?", *letters, *("##" + x for x in letters)])
    }
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(SPECIAL)
    return Tokenizer(backend)


Documents = Sequence[Sequence[Sequence[int]]]
"""Letters of each word of each sentence of each document."""


def write_documents(path: Path, documents: Documents) -> None:
    """Write documents of the given word lengths, all different, one sentence a line, a blank line between documents."""
    letter = 0
    lines = []
    for document in documents:
        for sentence in document:
            words = []
            for length in sentence:
                words.append("".join(chr(ord("a") + (letter + k * k) % 26) for k in range(length)))
                letter += 7
            lines.append(" ".join(words))
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def make_corpus(folder: Path, documents: Documents, *, shard_tokens: int = 1 << 27) -> PreparedCorpus:
    """A prepared corpus of documents with the requested lengths, in shards of about `shard_tokens`."""
    text = folder / "text.txt"
    write_documents(text, documents)
    options = PrepareConfig(
        documents="blank-line", lines="sentences", shard_tokens=shard_tokens, segment_bytes=min(shard_tokens, 1 << 20)
    )
    plan = plan_preparation([str(text)], options)
    run_preparation(plan, tokenizer=letters_tokenizer(), out=folder / "corpus")
    return PreparedCorpus.open(folder / "corpus")


def joined(lists: Iterable[list[Any]]) -> list[Any]:
    """The items of all lists in one list."""
    return list(chain.from_iterable(lists))


def folder_digest(folder: Path) -> dict[str, str]:
    """The sha256 of every file under a folder, by relative path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
