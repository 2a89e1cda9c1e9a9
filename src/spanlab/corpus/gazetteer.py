"""A gazetteer in a prepared corpus: names in, the places where they stand out, for `masking.law: given`.

Names come from a `.txt` file, one a line (entities, terms, noun phrases), or are the entities of a file of triples. A
name is found where its tokens stand as whole words, within a sentence, in the case of the tokenizer. Of names that
overlap the one that begins first counts, and of those that begin together the longest. Names with a token that the
vocabulary does not know are left out, since that token stands for any word.

Vectorised by length: names of L tokens are found by a hash of every window of L tokens, and then compared exactly.

Shapes: N tokens, W windows, H hits.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Integers
from spanlab.atomic_io import open_atomically
from spanlab.corpus.corpus import PreparedCorpus
from spanlab.corpus.manifest import SPANS
from spanlab.corpus.object_store import is_url
from spanlab.corpus.remote_corpus import upload_spans
from spanlab.corpus.triples import names_of, read_facts
from spanlab.errors import InputError
from spanlab.text import Tokenizer

_CHUNK = 1 << 22
"""Tokens searched at a time."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Sequences = dict[int, set[tuple[int, ...]]]
"""By length: the token ids of names."""


def read_names(path: str | Path) -> list[str]:
    """The names in a file: lines of a .txt, subjects and objects of triples."""
    path = Path(path)
    if path.suffix.lower() in {".tsv", ".csv", ".nt"}:
        return names_of(read_facts(path))
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise InputError(f"not a file of UTF-8 text ({error})", path=path) from None
    names = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not names:
        raise InputError("no names", path=path, fix="write one name a line")
    return names


def write_spans(corpus: PreparedCorpus, names: Iterable[str]) -> int:
    """Write the places of the names to `spans.jsonl` in the corpus, folder or URL; returns how many there are."""
    count = 0
    with open_atomically(corpus.folder / SPANS) as file:
        for start, end in find_names(corpus, names):
            file.write(json.dumps({"start": start, "end": end}).encode() + b"\n")
            count += 1
    if is_url(corpus.source):
        upload_spans(corpus.source, corpus.folder)
    return count


def find_names(corpus: PreparedCorpus, names: Iterable[str]) -> Iterator[tuple[int, int]]:
    """(start, end) of each name in the corpus, in tokens, in order and without overlaps."""
    sequences = _token_sequences(names, corpus.tokenizer)
    if not sequences:
        return
    total, longest, free = corpus.counts.tokens, max(sequences), 0
    for first in range(0, total, _CHUNK):
        # A name may begin in this chunk and end in the next; one token more tells whether a word ends there.
        stop = min(total, first + _CHUNK + longest)
        ranges = corpus.read([first], [stop])
        begins = ranges.word_starts | ranges.sentence_starts
        for start, end in _hits(ranges.ids, begins, ranges.sentence_starts, sequences, at_end=stop == total):
            if start < _CHUNK and first + start >= free:
                yield first + start, first + end
                free = first + end


def _token_sequences(names: Iterable[str], tokenizer: Tokenizer) -> Sequences:
    """The tokens of the names, as they are at the beginning of a text and after a space."""
    names = list(names)
    sequences: Sequences = defaultdict(set)
    for tokens in tokenizer.encode_batch([*names, *(f" {name}" for name in names)]):
        ids = tuple(tokens.ids.tolist())
        if ids and tokenizer.unk_id not in ids:
            sequences[len(ids)].add(ids)
    return dict(sequences)


def _hits(
    ids_N: Integers,
    begins_N: NDArray[np.bool_],
    sentences_N: NDArray[np.bool_],
    sequences: Sequences,
    *,
    at_end: bool,
) -> list[tuple[int, int]]:
    """(start, end) of every name, by start and then the longest first."""
    ends_here = np.append(begins_N, at_end)
    sentences_before = np.concatenate([[0], np.cumsum(sentences_N)])
    found: list[tuple[int, int]] = []
    for length, known in sequences.items():
        if length > len(ids_N):
            continue
        windows = len(ids_N) - length + 1
        candidates = begins_N[:windows] & ends_here[length:]
        # A name does not go on across a sentence: none begins after its first token.
        candidates &= sentences_before[length:][:windows] == sentences_before[1:][:windows]
        starts_H = np.flatnonzero(candidates)
        tokens_HL = ids_N[starts_H[:, None] + np.arange(length)]
        likely = np.isin(_hash(tokens_HL), _hash(np.array(sorted(known), np.int64)))
        found += [
            (start, start + length)
            for start, ids in zip(starts_H[likely].tolist(), tokens_HL[likely].tolist(), strict=True)
            if tuple(ids) in known
        ]
    return sorted(found, key=lambda span: (span[0], -span[1]))


def _hash(tokens_WL: Integers) -> NDArray[np.uint64]:
    """(W,) a number for each window; equal windows have equal numbers."""
    hashed = np.zeros(len(tokens_WL), np.uint64)
    for column in tokens_WL.T.astype(np.uint64):
        hashed = (hashed + column + np.uint64(1)) * _FACTOR
    return hashed
