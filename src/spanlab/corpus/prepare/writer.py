"""Parts go to disk in the order of tasks, and a run that was killed goes on where its last commit left off.

While a shard is open its sections grow in the folder `.prepare`, beside a small state file that says how much of them
is valid. A commit makes the sections durable, then replaces the state; going on after a kill cuts the sections back to
the state and works on from its task. A full shard is put together under its final name before the commit that counts
it, and can be put together again from the same sections, so no order of events loses or doubles a document.
Shards end with the task that fills them: where they are cut depends on the input alone.
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
from spanlab.errors import ConfigError, InputError

Digests = NDArray[np.bytes_]
_LONGEST_RUN = 1 << 24


class SeenDocuments:
    """Tells which documents are new, in the order in which they are asked about."""

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, digests: Digests) -> Flags:
        """(D,) True for documents that neither an earlier call nor an earlier place of this one held; all are kept."""
        distinct, firsts = np.unique(digests, return_index=True)
        known = np.zeros(len(distinct), np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            known |= run[places] == distinct
        fresh = np.zeros(len(digests), np.bool_)
        fresh[firsts[~known]] = True
        if not known.all():
            self._keep(distinct[~known])
        return fresh

    def _keep(self, run: Digests) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run) and len(self._runs[-1]) < _LONGEST_RUN:
            run = np.concatenate((self._runs.pop(), run))
            run.sort(kind="stable")  # two sorted runs: a merge
        self._runs.append(run)


STATE = "state.json"
STATE_VERSION = 1
_DIGESTS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a preparation has come."""

    version: int = STATE_VERSION
    options: PrepareConfig
    tokenizer: str
    """Fingerprint of the tokenizer."""
    vocab_size: int
    tasks: int = 0
    """Tasks whose parts are written."""
    chain: str = ""
    """Fingerprint of those tasks' segments: the same input must come again for a run to go on."""
    counts: Counts = field(default_factory=Counts)
    shards: tuple[ShardRecord, ...] = ()
    tokens: int = 0
    """Tokens in the open shard; the next two likewise."""
    sentences: int = 0
    documents: int = 0


def read_state(folder: Path) -> State | None:
    """The state an interrupted preparation left in a corpus folder, if any."""
    path = folder / WORK / STATE
    try:
        mapping = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(mapping, dict) and mapping.get("version") == STATE_VERSION:
            return from_mapping(State, mapping, Source(path=str(path)))
    except FileNotFoundError:
        return None
    except (UnicodeDecodeError, json.JSONDecodeError, ConfigError):
        pass
    raise InputError(
        "the state of the interrupted preparation cannot be read", path=path, fix="start anew with --overwrite"
    )


class CorpusWriter:
    """Appends parts to the shards of a corpus folder."""

    def __init__(self, folder: Path, state: State, *, commit_seconds: float = 5.0) -> None:
        self._folder, self._work = folder, folder / WORK
        self._commit_seconds, self._committed = commit_seconds, time.monotonic()
        self._tokens_type = token_dtype(state.vocab_size)
        self.state = state
        self._sections = {
            name: _open_cut(self._work / name, size)
            for name, size in {
                "tokens": state.tokens * self._tokens_type.itemsize,
                "words": state.tokens,
                "sentences": 4 * state.sentences,
                "documents": 4 * state.documents,
                "digests": DIGEST.itemsize * state.counts.documents,
            }.items()
        }
        self._seen = self._read_digests(state.counts.documents)

    def _read_digests(self, documents: int) -> SeenDocuments:
        seen = SeenDocuments()
        with (self._work / "digests").open("rb") as file:
            for first in range(0, documents, _DIGESTS_AT_ONCE):
                count = min(_DIGESTS_AT_ONCE, documents - first)
                seen.add(np.frombuffer(file.read(count * DIGEST.itemsize), DIGEST))
        return seen

    def append(self, part: TokenizedDocuments, chain: str) -> None:
        """Write the new documents of the next task's part; `chain` is the input's fingerprint with that task."""
        kept = part.select(self._seen.add(part.digests))
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
            counts=state.counts + _counts(part, kept),
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
        """Make everything written so far durable, and the place to go on from."""
        for file in self._sections.values():
            os.fsync(file.fileno())
        write_atomically(self._work / STATE, json.dumps(to_mapping(self.state)).encode())
        self._committed = time.monotonic()

    def finish_shard(self) -> None:
        """Put the open shard, if it holds anything, under its final name and open the next."""
        state = self.state
        if not state.tokens:
            return
        path = self._folder / f"shard-{len(state.shards):05d}.bin"
        digest = write_shard(
            path, **{name: self._work / name for name in ("tokens", "words", "sentences", "documents")}
        )
        record = ShardRecord(
            file=path.name,
            bytes=section_starts(state.tokens, state.sentences, state.documents, self._tokens_type.itemsize)[-1],
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
        """Let go of the files; what is not committed is not kept."""
        for file in self._sections.values():
            file.close()


def _open_cut(path: Path, size: int) -> IO[bytes]:
    """A section file for appending, cut back to its valid size."""
    path.touch()
    if path.stat().st_size < size:
        raise InputError("shorter than the state says", path=path, fix="start anew with --overwrite")
    file = path.open("r+b", buffering=0)
    file.truncate(size)
    file.seek(size)
    return file


def _starts(first: int, lengths: Integers) -> bytes:
    """Where things of these lengths start, one after the other from `first` on, as the shard writes them."""
    return (first + offsets(lengths)).astype(np.dtype("<u4")).tobytes()


def _counts(part: TokenizedDocuments, kept: TokenizedDocuments) -> Counts:
    return Counts(
        tokens=len(kept.ids),
        words=int(np.count_nonzero(kept.word_starts)),
        sentences=len(kept.sentence_lengths),
        documents=len(kept.document_lengths),
        bytes=int(kept.document_bytes.sum()),
        duplicates=len(part.document_lengths) - len(kept.document_lengths),
        short=part.short,
        cut=part.cut,
        replaced=part.replaced,
    )
