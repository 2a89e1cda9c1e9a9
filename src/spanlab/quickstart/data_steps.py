"""The first part of a quickstart: text, a tokenizer, prepared corpora, and the labelled files of the tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spanlab.corpus.manifest import MANIFEST, WORK, Counts, read_manifest
from spanlab.corpus.prepare.config import PrepareConfig
from spanlab.corpus.prepare.plan import Plan, plan_preparation
from spanlab.corpus.prepare.run import Progress, run_preparation
from spanlab.errors import InputError
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import CORPUS, LANGUAGE, TASKS, TEXT, TOKENIZER, QuickstartTask
from spanlab.samples import Passage, load
from spanlab.samples.exports import files_of
from spanlab.samples.exports.records import json_lines
from spanlab.text import Tokenizer
from spanlab.text.plain_files import open_plain_files
from spanlab.text.train import TokenizerConfig, train_tokenizer


def write_text(folder: Path, *, reference: bool) -> str:
    """A file for each training passage and, with `reference`, each topic of the reference; in words, what it is."""
    passages = [passage for passage in load() if passage.split == "train" and passage.language == LANGUAGE]
    for passage in passages:
        _write(folder / f"almanac-{passage.id}.txt", passage.text.replace("\n", " "))
    told = f"{len(passages)} passages of the almanac"
    if not reference:
        return f"your text and {told}"
    topics = _python_reference()
    for name, text in topics.items():
        _write(folder / f"python-{name}.txt", text)
    if not topics:
        return f"{told} alone: this Python comes without its language reference (pydoc_data)"
    return f"{told} and {len(topics)} topics of the Python language reference"


def _python_reference() -> dict[str, str]:
    """The topics that `help()` shows; some distributions of Python leave them out."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return {}
    return dict(sorted(topics.items()))


def _write(path: Path, text: str) -> None:
    path.write_text(text.strip() + "\n", encoding="utf-8", newline="\n")


def text_files(folder: Path, own: tuple[str, ...]) -> list[str]:
    """All files to learn from, the user's own first."""
    return [*own, *map(str, sorted(folder.glob("*.txt")))]


def plan_corpus(folder: Path, own: tuple[str, ...]) -> Plan:
    """How they become documents; the layout of the user's own files is detected from these alone."""
    config = PrepareConfig(documents="file", lines="wrapped")
    if own:
        # Passages are files of one line: as a document each they fit every layout.
        config = plan_preparation(own, PrepareConfig(), file_format="txt").config
    return plan_preparation(text_files(folder, own), config, file_format="txt")


SPLITS = ("train", "dev", "test")
Record = Mapping[str, Any]


def write_labelled(folder: Path, task: QuickstartTask) -> dict[str, int]:
    """A file of JSON lines for each split; how many examples each holds."""
    counts = {}
    for split in SPLITS:
        examples = list(_KEPT[task.task](files_of(task.task).examples(_passages(split))))
        (folder / f"{split}.jsonl").write_text(json_lines(examples), encoding="utf-8", newline="\n")
        counts[split] = len(examples)
    return counts


def _passages(split: str) -> list[Passage]:
    return [passage for passage in load() if passage.split == split and passage.language == LANGUAGE]


def _outermost_entities(records: Iterable[Record]) -> Iterator[Record]:
    for record in records:
        spans: list[Record] = []
        for span in record["spans"]:  # in the order of the text, outer before inner
            if not spans or span["start"] >= spans[-1]["end"]:
                spans.append(span)
        yield {**record, "spans": spans}


def _answered_questions(records: Iterable[Record]) -> Iterator[Record]:
    return (record for record in records if record["answers"])


_KEPT: Mapping[str, Callable[[Iterable[Record]], Iterator[Record]]] = {
    "ner": _outermost_entities,
    "qa": _answered_questions,
}


LEAST_TOKENS = 5000


def make_data(place: QuickstartFolder) -> None:
    """Everything that training reads."""
    _make_text(place)
    _make_tokenizer(place)
    counts = make_corpus(place, CORPUS, place.folder / TOKENIZER)
    if counts.tokens < LEAST_TOKENS:
        cause = f"the text has {counts.tokens:,} tokens, too few to learn from"
        raise InputError(cause, path=place.folder / CORPUS, fix="give more --text, with --overwrite")
    _make_labelled_files(place)


def _make_text(place: QuickstartFolder) -> None:
    if (place.folder / TEXT).exists():
        return
    with place.timed(TEXT), place.new_folder(TEXT) as new:
        told = write_text(new, reference=not place.settings.text)
    place.watcher.say(f"text: {told}")


def _make_tokenizer(place: QuickstartFolder) -> None:
    if (place.folder / TOKENIZER).exists():
        place.watcher.say("tokenizer: done already")
        return
    read = 0

    def show(size: int) -> None:
        nonlocal read
        read += size
        place.watcher.progress("learning a vocabulary", read, None)

    with place.timed(TOKENIZER), place.new_folder(TOKENIZER) as new:
        files = open_plain_files(text_files(place.folder / TEXT, place.settings.text), show)
        config = TokenizerConfig(kind="wordpiece", vocab_size=place.settings.vocabulary)
        tokenizer = train_tokenizer(files, config)
        tokenizer.save(new)
    place.watcher.say(f"tokenizer: {tokenizer.vocab_size:,} pieces of words, learnt from the text")


def make_corpus(place: QuickstartFolder, name: str, tokenizer: Path) -> Counts:
    """The text as a prepared corpus in `name`, by a tokenizer."""
    folder = place.folder / name
    if (folder / MANIFEST).is_file() and not (folder / WORK).exists():
        place.watcher.say(f"{name}: done already")
        return read_manifest(folder).counts
    with place.timed(name):
        plan = plan_corpus(place.folder / TEXT, place.settings.text)

        def show(progress: Progress) -> None:
            place.watcher.progress("preparing the corpus", progress.text_bytes, plan.text_bytes)

        counts = run_preparation(plan, tokenizer=Tokenizer.load(tokenizer), out=folder, on_progress=show).counts
    place.watcher.say(
        f"{name}: {counts.tokens:,} tokens, {counts.sentences:,} sentences, {counts.documents:,} documents"
    )
    return counts


def _make_labelled_files(place: QuickstartFolder) -> None:
    for task in TASKS:
        if (place.folder / task.name).exists():
            continue
        with place.timed(task.name), place.new_folder(task.name) as new:
            counts = write_labelled(new, task)
        counted = ", ".join(f"{split} {count:,}" for split, count in counts.items())
        place.watcher.say(f"{task.title} of the almanac: {counted}")
