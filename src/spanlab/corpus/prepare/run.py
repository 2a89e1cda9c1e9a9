"""Raw text to a prepared corpus: the plan is carried out, and the manifest written last.

What enters is a plan and a tokenizer; what leaves is a folder with shards, the tokenizer and the manifest. This process
cuts the input into groups of segments and writes their documents in order; workers read and tokenize. An interrupted
run resumes from its last commit. Memory does not grow with the corpus, except for 16 bytes a document by which
duplicates are found.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from spanlab.arrays import Integers
from spanlab.atomic_io import has_output, locked, readable_disk_errors, write_atomically
from spanlab.config import to_mapping
from spanlab.corpus.manifest import (
    INDEX,
    INPUTS,
    MANIFEST,
    SPANS,
    TOKEN_COUNTS,
    TOKENIZER,
    WORK,
    Counts,
    Manifest,
    TokenizerRecord,
    read_manifest,
    record_of,
    write_manifest,
)
from spanlab.corpus.object_store import is_url
from spanlab.corpus.prepare.engines import Engine, run_workers
from spanlab.corpus.prepare.plan import Plan
from spanlab.corpus.prepare.segments import Segment, SegmentGroup, group_segments, segments_of
from spanlab.corpus.prepare.tokenize import token_dtype, tokenize_segments
from spanlab.corpus.prepare.writer import CorpusWriter, State, read_state
from spanlab.corpus.remote_corpus import Publication
from spanlab.corpus.shards import Shard
from spanlab.errors import InputError
from spanlab.strict_parsing import parse_json
from spanlab.text import Tokenizer
from spanlab.text.words import load_segmenter

_LOCK = "lock"
_COUNT_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a preparation has come."""

    text_bytes: int
    """Bytes of text read, those of an earlier, interrupted run included."""
    counts: Counts


def run_preparation(
    plan: Plan,
    *,
    tokenizer: Tokenizer,
    out: str | Path,
    workers: int | None = 1,
    engine: Engine = "local",
    overwrite: bool = False,
    commit_seconds: float = 5.0,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Prepare the corpus of a plan in the folder `out`, or resume an interrupted preparation there.

    `out` may be a URL: the corpus is prepared in a working folder on this machine, and uploaded when it is complete.
    `workers` None: one per core. More than one are processes that import the caller's main module: a script must call
    this under `if __name__ == "__main__"`.
    """
    _check_segmenter(plan, tokenizer)
    write = partial(
        _prepare_in,
        plan=plan,
        tokenizer=tokenizer,
        workers=workers,
        engine=engine,
        overwrite=overwrite,
        commit_seconds=commit_seconds,
        on_progress=on_progress,
    )
    return _publish(str(out), plan, tokenizer, write, overwrite=overwrite) if is_url(str(out)) else write(Path(out))


def _prepare_in(
    folder: Path,
    *,
    plan: Plan,
    tokenizer: Tokenizer,
    workers: int | None,
    engine: Engine,
    overwrite: bool,
    commit_seconds: float,
    on_progress: Callable[[Progress], None] | None,
) -> Manifest:
    with readable_disk_errors(folder, "free some space and run the same command again to resume"):
        _check_folder(folder, plan.names, overwrite=overwrite)
        with _working_folder(folder):
            if (folder / MANIFEST).exists() and not overwrite:
                shutil.rmtree(folder / WORK)  # the last step, missed by a run that was killed just before it
                return read_manifest(folder)
            state = _initial_state(folder, plan, tokenizer, overwrite=overwrite)
            writer = CorpusWriter(folder, state, commit_seconds=commit_seconds)
            try:
                _write_shards(writer, plan, folder, workers, engine, on_progress)
                return _finish(folder, plan, writer, tokenizer)
            finally:
                writer.close()


def _check_segmenter(plan: Plan, tokenizer: Tokenizer) -> None:
    """Refuse a segmenter that workers could not load, before anything is written."""
    if tokenizer.segmenter is not None:
        raise InputError(
            "the tokenizer has a segmenter, which the workers' tokenizers do not have",
            fix="load it without, and name one: PrepareConfig(segmenter='jieba')",
        )
    if plan.config.segmenter is not None:
        load_segmenter(plan.config.segmenter)


# The folder of the corpus: new, to be resumed, or complete.


def _check_folder(folder: Path, inputs: Iterable[str], *, overwrite: bool) -> None:
    """Refuse a folder that may not be written to, without touching it."""
    for name in inputs:
        if Path(name).is_dir() and folder.resolve().is_relative_to(Path(name).resolve()):
            raise InputError(f"the folder lies inside the input {name}", path=folder, fix="choose another --out")
    if (folder / WORK).exists():
        return
    if has_output(folder, MANIFEST, "corpus") and not overwrite:
        raise InputError("the folder contains a prepared corpus", path=folder, fix="use --overwrite to replace it")


@contextmanager
def _working_folder(folder: Path) -> Iterator[None]:
    """Create the folder with its folder of working files, and lock out a second preparation.

    The lock of a killed preparation ends with its process; the working files stay.
    """
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    with locked(folder / WORK / _LOCK, "another preparation is writing to this folder"):
        yield


def _remove_corpus(folder: Path) -> None:
    """Remove what a preparation writes, and nothing else; the manifest first, so that no half corpus looks complete."""
    for name in (MANIFEST, TOKEN_COUNTS, INPUTS, SPANS):
        (folder / name).unlink(missing_ok=True)
    for path in (*folder.glob("shard-[0-9]*.bin*"), *(folder / WORK).iterdir()):
        if path.name != _LOCK:
            path.unlink()
    for name in (TOKENIZER, INDEX):
        shutil.rmtree(folder / name, ignore_errors=True)


def _initial_state(folder: Path, plan: Plan, tokenizer: Tokenizer, *, overwrite: bool) -> State:
    """The state of an interrupted run, if it was the same preparation, or an empty one."""
    fresh = State(options=plan.config, tokenizer=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size)
    state = None if overwrite else read_state(folder)
    if state is None:
        _remove_corpus(folder)
        tokenizer.save(folder / TOKENIZER)
        return fresh
    if state.tokenizer != fresh.tokenizer:
        raise _other_preparation(folder, "another tokenizer")
    # `errors` may change: what an interrupted run has written is the same under either choice.
    previous, current = to_mapping(replace(state.options, errors=plan.config.errors)), to_mapping(plan.config)
    for name in current:
        if previous[name] != current[name]:
            raise _other_preparation(folder, f"{name} {previous[name]}, not {current[name]}")
    return replace(state, options=plan.config)


def _other_preparation(folder: str | Path, difference: str) -> InputError:
    return InputError(
        f"an interrupted preparation in this folder was started with {difference}",
        path=folder,
        fix="resume it with the same options, or start over with --overwrite",
    )


# A corpus at a URL.


def _publish(
    url: str, plan: Plan, tokenizer: Tokenizer, write: Callable[[Path], Manifest], *, overwrite: bool
) -> Manifest:
    """Prepare in a working folder, unless an earlier run did and its upload was interrupted, and upload the corpus."""
    publication = Publication(url, overwrite=overwrite)
    folder = publication.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock"), f"another preparation is writing to {url}"):
        if overwrite or not (folder / MANIFEST).is_file() or (folder / WORK).exists():
            write(folder)
        elif (difference := _difference(folder, plan, tokenizer)) is not None:
            raise _other_preparation(url, difference)
        manifest = read_manifest(folder)
        publication.upload()
    return manifest


def _difference(folder: Path, plan: Plan, tokenizer: Tokenizer) -> str | None:
    """How the corpus in a working folder differs from what is to be prepared."""
    manifest = read_manifest(folder)
    if manifest.tokenizer.fingerprint != tokenizer.fingerprint:
        return "another tokenizer"
    if manifest.options != plan.config:
        return "other options"
    lines = (folder / INPUTS).read_bytes().splitlines()
    prepared = [(entry["source"], entry["bytes"]) for entry in map(parse_json, lines)]
    return "other input" if prepared != [(source.name, source.size) for source in plan.sources()] else None


# Input to shards.


def _write_shards(
    writer: CorpusWriter,
    plan: Plan,
    folder: Path,
    workers: int | None,
    engine: Engine,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    config = plan.config
    tokenize = partial(
        tokenize_segments,
        config=config,
        tokenizer_folder=str(folder / TOKENIZER),
        fingerprint=writer.state.tokenizer,
    )
    groups = group_segments(_segments(plan, folder), config.segment_bytes)
    size = _skip_written(groups, writer.state, folder)
    with closing(run_workers(groups, tokenize, engine=engine, workers=workers)) as results:
        for group, tokenized in results:
            writer.append(tokenized, _chained(writer.state.chain, group))
            size += sum(segment.size for segment in group)
            if on_progress:
                on_progress(Progress(text_bytes=size, counts=writer.state.counts))


def _segments(plan: Plan, folder: Path) -> Iterator[Segment]:
    """The segments of all sources; what was read is recorded in the working file INPUTS."""
    with (folder / WORK / INPUTS).open("w", encoding="utf-8") as inputs:
        for source in plan.sources():
            size = 0
            for segment in segments_of(source, plan.config, stdin=plan.stdin):
                size += segment.size
                yield segment
            entry = {"source": source.name, "format": source.format, "bytes": source.size, "text_bytes": size}
            inputs.write(json.dumps(entry) + "\n")
        inputs.flush()
        os.fsync(inputs.fileno())


def _skip_written(groups: Iterator[SegmentGroup], state: State, folder: Path) -> int:
    """Skip the groups an earlier run has written, checking that they are the same; returns the size of their text."""
    chain, size = "", 0
    for _ in range(state.tasks):
        group = next(groups, None)
        if group is None:
            break
        chain = _chained(chain, group)
        size += sum(segment.size for segment in group)
    if chain != state.chain:
        raise _other_preparation(folder, "other input (a file was changed, added or removed)")
    return size


def _chained(chain: str, group: SegmentGroup) -> str:
    digest = hashlib.blake2b(chain.encode(), digest_size=16)
    for segment in group:
        digest.update(segment.fingerprint)
    return digest.hexdigest()


def _finish(folder: Path, plan: Plan, writer: CorpusWriter, tokenizer: Tokenizer) -> Manifest:
    """Close the last shard, count tokens over the whole corpus, and write the manifest."""
    writer.finish_shard()
    state = writer.state
    if not state.counts.documents:
        _remove_corpus(folder)
        shutil.rmtree(folder / WORK)
        left_out = (
            f" ({state.counts.short} had fewer than {plan.config.min_tokens} tokens)" if state.counts.short else ""
        )
        raise InputError(f"no document to prepare{left_out}", path=" ".join(plan.names))
    token_type = token_dtype(state.vocab_size).name
    shards = [Shard(folder, record, token_type) for record in state.shards]
    write_atomically(folder / TOKEN_COUNTS, _token_counts(shards, state.vocab_size).astype("<u8").tobytes())
    with (folder / WORK / INPUTS).open("rb") as inputs:
        empty = sum(parse_json(line)["text_bytes"] == 0 for line in inputs)
    (folder / WORK / INPUTS).replace(folder / INPUTS)
    manifest = Manifest(
        tokenizer=TokenizerRecord(fingerprint=state.tokenizer, kind=tokenizer.kind, vocab_size=state.vocab_size),
        token_type="uint16" if token_type == "uint16" else "uint32",
        counts=replace(state.counts, empty=empty),
        options=plan.config,
        shards=state.shards,
        files=(record_of(folder / TOKEN_COUNTS), record_of(folder / INPUTS)),
    )
    write_manifest(folder, manifest)
    shutil.rmtree(folder / WORK)
    return manifest


def _token_counts(shards: list[Shard], vocab_size: int) -> Integers:
    counts = np.zeros(vocab_size, np.int64)
    for shard in shards:
        for first in range(0, len(shard.tokens), _COUNT_AT_ONCE):
            counts += np.bincount(shard.tokens[first : first + _COUNT_AT_ONCE], minlength=vocab_size)
    return counts
