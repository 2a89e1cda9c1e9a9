"""Tokenized documents to shards, in the order of the input, so that a killed run resumes at its last commit.

While a shard is open its sections grow in the folder `.prepare`, beside a small state file that says how much of them
is valid. A commit makes the sections durable, then replaces the state; resuming truncates the sections to the state and
continues with the next group of segments. A full shard is assembled under its final name before the commit that counts
it, and can be assembled again from the same sections, so no order of events loses or duplicates a document. Shards end
with the group of segments that fills them: where they are cut depends on the input alone.
"""

import json
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from spanlab.arrays import Flags, Integers, offsets
from spanlab.atomic_io import write_atomically
from spanlab.config import Source, from_mapping, to_mapping
from spanlab.corpus.manifest import WORK, Counts, ShardRecord
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.tokenize import DIGEST, TokenizedDocuments, token_dtype
from spanlab.corpus.shards import section_starts, write_shard
from spanlab.errors import InputError
from spanlab.strict_parsing import read_json

STATE = "state.json"
STATE_VERSION = 1
_DIGESTS_AT_ONCE = 1 << 20
_LONGEST_RUN = 1 << 24
Digests = NDArray[np.bytes_]


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a preparation has come."""

    version: int = STATE_VERSION
    options: PrepareConfig
    tokenizer: str
    """Fingerprint of the tokenizer."""
    vocab_size: int
    tasks: int = 0
    """Groups of segments that are written."""
    chain: str = ""
    """Fingerprint of their segments: a run resumes only on the same input."""
    counts: Counts = field(default_factory=Counts)
    shards: tuple[ShardRecord, ...] = ()
    tokens: int = 0
    """Tokens in the open shard; the next two likewise."""
    sentences: int = 0
    documents: int = 0


def read_state(folder: Path) -> State | None:
    """The state of an interrupted preparation in a corpus folder, if any."""
    path = folder / WORK / STATE
    try:
        mapping = read_json(path)
        if isinstance(mapping, dict) and mapping.get("version") == STATE_VERSION:
            return from_mapping(State, mapping, Source(path=str(path)))
    except FileNotFoundError:
        return None
    except InputError:
        pass
    raise InputError(
        "the state of the interrupted preparation cannot be read", path=path, fix="start over with --overwrite"
    )


class CorpusWriter:
    """Appends tokenized documents to the shards of a corpus folder."""

    def __init__(self, folder: Path, state: State, *, commit_seconds: float = 5.0) -> None:
        self._folder, self._work = folder, folder / WORK
        self._commit_seconds, self._committed = commit_seconds, time.monotonic()
        self._token_type = token_dtype(state.vocab_size)
        self.state = state
        self._sections = {
            name: _open_section(self._work / name, size)
            for name, size in {
                "tokens": state.tokens * self._token_type.itemsize,
                "words": state.tokens,
                "sentences": 4 * state.sentences,
                "documents": 4 * state.documents,
                "digests": DIGEST.itemsize * state.counts.documents,
            }.items()
        }
        self._seen = self._read_digests(state.counts.documents)

    def _read_digests(self, documents: int) -> "SeenDocuments":
        seen = SeenDocuments()
        with (self._work / "digests").open("rb") as file:
            for first in range(0, documents, _DIGESTS_AT_ONCE):
                count = min(_DIGESTS_AT_ONCE, documents - first)
                seen.add(np.frombuffer(file.read(count * DIGEST.itemsize), DIGEST))
        return seen

    def append(self, documents: TokenizedDocuments, chain: str) -> None:
        """Write those documents of the next group that are new; `chain` is the input's fingerprint up to that group."""
        kept = documents.select(self._seen.add(documents.digests))
        state = self.state
        self._write("tokens", kept.ids.tobytes())
        self._write("words", kept.word_starts.tobytes())
        self._write("sentences", _starts(state.tokens, kept.sentence_lengths))
        self._write("documents", _starts(state.tokens, kept.document_lengths))
        self._write("digests", kept.digests.tobytes())
        self.state = replace(
            state,
            tasks=state.tasks + 1,
            chain=chain,
            counts=state.counts + _counts(documents, kept),
            tokens=state.tokens + len(kept.ids),
            sentences=state.sentences + len(kept.sentence_lengths),
            documents=state.documents + len(kept.document_lengths),
        )
        if self.state.tokens >= state.options.shard_tokens:
            self.finish_shard()
        elif time.monotonic() - self._committed >= self._commit_seconds:
            self.commit()

    def _write(self, section: str, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._sections[section].write(view) :]

    def commit(self) -> None:
        """Make everything written so far durable; a killed run resumes from here."""
        for file in self._sections.values():
            os.fsync(file.fileno())
        write_atomically(self._work / STATE, json.dumps(to_mapping(self.state)).encode())
        self._committed = time.monotonic()

    def finish_shard(self) -> None:
        """Assemble the open shard, if it is not empty, under its final name and open the next."""
        state = self.state
        if not state.tokens:
            return
        path = self._folder / f"shard-{len(state.shards):05d}.bin"
        digest = write_shard(
            path, **{name: self._work / name for name in ("tokens", "words", "sentences", "documents")}
        )
        record = ShardRecord(
            file=path.name,
            bytes=section_starts(state.tokens, state.sentences, state.documents, self._token_type.itemsize)[-1],
            sha256=digest,
            tokens=state.tokens,
            sentences=state.sentences,
            documents=state.documents,
        )
        self.state = replace(state, shards=(*state.shards, record), tokens=0, sentences=0, documents=0)
        self.commit()
        for name in ("tokens", "words", "sentences", "documents"):
            self._sections[name].truncate(0)
            self._sections[name].seek(0)

    def close(self) -> None:
        """Close the files; what was not committed is lost."""
        for file in self._sections.values():
            file.close()


def _open_section(path: Path, size: int) -> IO[bytes]:
    """A section file for appending, truncated to its valid size."""
    path.touch()
    if path.stat().st_size < size:
        raise InputError("the file is shorter than recorded in the state", path=path, fix="start over with --overwrite")
    file = path.open("r+b", buffering=0)
    file.truncate(size)
    file.seek(size)
    return file


def _starts(first: int, lengths: Integers) -> bytes:
    """Where ranges of these lengths start, end to end from `first` on, in the format of a shard."""
    return (first + offsets(lengths)).astype(np.dtype("<u4")).tobytes()


def _counts(documents: TokenizedDocuments, kept: TokenizedDocuments) -> Counts:
    return Counts(
        tokens=len(kept.ids),
        words=int(np.count_nonzero(kept.word_starts)),
        sentences=len(kept.sentence_lengths),
        documents=len(kept.document_lengths),
        bytes=int(kept.document_bytes.sum()),
        duplicates=len(documents.document_lengths) - len(kept.document_lengths),
        short=documents.short,
        cut=documents.cut,
        replaced=documents.replaced,
    )


class SeenDocuments:
    """The digests of all documents so far, in sorted runs that double in length: 16 bytes a document."""

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, digests: Digests) -> Flags:
        """(D,) True for documents whose digest is new: in no earlier call and not before in this one."""
        distinct, firsts = np.unique(digests, return_index=True)
        known = np.zeros(len(distinct), np.bool_)
        for run in self._runs:
            positions = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            known |= run[positions] == distinct
        fresh = np.zeros(len(digests), np.bool_)
        fresh[firsts[~known]] = True
        if not known.all():
            self._insert(distinct[~known])
        return fresh

    def _insert(self, run: Digests) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run) and len(self._runs[-1]) < _LONGEST_RUN:
            run = np.concatenate((self._runs.pop(), run))
            run.sort(kind="stable")  # two sorted runs: a merge
        self._runs.append(run)
