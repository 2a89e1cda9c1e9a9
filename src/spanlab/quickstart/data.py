"""The data of a quickstart: a text as a corpus, and labelled entities."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spanlab.corpus.manifest import MANIFEST, WORK, read_manifest
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.plan import Plan, plan_preparation
from spanlab.corpus.prepare.run import Progress, run_preparation
from spanlab.errors import InputError
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import CORPUS, ENTITIES, TEXT
from spanlab.samples import Passage, load
from spanlab.samples.export import files_of
from spanlab.samples.formats import json_lines
from spanlab.text import Tokenizer

MIN_TOKENS = 5000
"""Below this, continued pre-training is pointless."""
SPLITS = ("train", "dev", "test")
LANGUAGE = "en"
"""Of the passages; the models in the box are English."""


def make_text(folder: QuickstartFolder) -> None:
    """Write the text that is used without `--text`."""
    if folder.settings.text or (folder.path / TEXT).exists():
        return
    with folder.timed(TEXT), folder.new_folder(TEXT) as new:
        summary = write_text(new)
    folder.events.say(f"text: {summary}")


def write_text(folder: Path) -> str:
    """Write the training passages of the almanac and Python's language reference; returns a summary."""
    passages, topics = _passages("train"), _python_reference()
    for passage in passages:
        _write(folder / f"almanac-{passage.id}.txt", passage.text.replace("\n", " "))
    for name, text in topics.items():
        _write(folder / f"python-{name}.txt", text)
    reference = f"{len(topics)} topics of the Python language reference" if topics else "no more: this Python lacks it"
    return f"{len(passages)} passages of the almanac and {reference}"


def _python_reference() -> dict[str, str]:
    """The topics of `help()`; some distributions of Python omit them."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return {}
    return dict(sorted(topics.items()))


def _write(path: Path, text: str) -> None:
    path.write_text(text.strip() + "\n", encoding="utf-8", newline="\n")


def make_corpus(folder: QuickstartFolder, tokenizer: Path) -> None:
    """Prepare the text as a corpus, with the tokenizer in a folder."""
    out = folder.path / CORPUS
    if (out / MANIFEST).is_file() and not (out / WORK).exists():
        folder.events.say(f"{CORPUS}: already done")
        counts = read_manifest(out).counts
    else:
        with folder.timed(CORPUS):
            plan = _plan_corpus(folder)

            def report(progress: Progress) -> None:
                folder.events.progress("preparing the corpus", progress.text_bytes, plan.text_bytes)

            counts = run_preparation(plan, tokenizer=Tokenizer.load(tokenizer), out=out, on_progress=report).counts
        sizes = f"{counts.tokens:,} tokens, {counts.sentences:,} sentences, {counts.documents:,} documents"
        folder.events.say(f"{CORPUS}: {sizes}")
    if counts.tokens < MIN_TOKENS:
        cause = f"the text has {counts.tokens:,} tokens, too few to train on"
        raise InputError(cause, path=out, fix="use more --text, with --overwrite")


def _plan_corpus(folder: QuickstartFolder) -> Plan:
    if folder.settings.text:
        return plan_preparation(folder.settings.text, PrepareConfig(), file_format="txt")
    files = [str(path) for path in sorted((folder.path / TEXT).glob("*.txt"))]
    return plan_preparation(files, PrepareConfig(documents="file", lines="wrapped"), file_format="txt")


def make_labelled_files(folder: QuickstartFolder) -> None:
    """Write the almanac's entities: train, dev and test."""
    if (folder.path / ENTITIES).exists():
        return
    with folder.timed(ENTITIES), folder.new_folder(ENTITIES) as new:
        counts = write_labelled(new)
    sizes = ", ".join(f"{split} {count:,}" for split, count in counts.items())
    folder.events.say(f"entities of the almanac, passages: {sizes}")


def write_labelled(folder: Path) -> dict[str, int]:
    """Write a file of JSON lines for each split; returns the number of passages of each."""
    counts = {}
    for split in SPLITS:
        examples = list(_outermost(files_of("ner").examples(_passages(split))))
        (folder / f"{split}.jsonl").write_text(json_lines(examples), encoding="utf-8", newline="\n")
        counts[split] = len(examples)
    return counts


def _passages(split: str) -> list[Passage]:
    return [passage for passage in load() if passage.split == split and passage.language == LANGUAGE]


def _outermost(records: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Of nested entities only the outermost: tags have no place for others."""
    for record in records:
        spans: list[Mapping[str, Any]] = []
        for span in record["spans"]:  # in the order of the text, outer before inner
            if not spans or span["start"] >= spans[-1]["end"]:
                spans.append(span)
        yield {**record, "spans": spans}
