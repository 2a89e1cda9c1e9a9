"""The data of a quickstart: text, a tokenizer, prepared corpora, and the labelled files of the tasks."""

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
from spanlab.samples.export import files_of
from spanlab.samples.formats import json_lines
from spanlab.text import Tokenizer
from spanlab.text.plain_files import open_plain_files
from spanlab.text.train import TokenizerConfig, train_tokenizer

MIN_TOKENS = 5000
"""Below this, pre-training is pointless."""
SPLITS = ("train", "dev", "test")
Record = Mapping[str, Any]


def make_data(folder: QuickstartFolder) -> None:
    """Make everything that training reads."""
    _make_text(folder)
    _make_tokenizer(folder)
    counts = make_corpus(folder, CORPUS, folder.path / TOKENIZER)
    if counts.tokens < MIN_TOKENS:
        cause = f"the text has {counts.tokens:,} tokens, too few to train on"
        raise InputError(cause, path=folder.path / CORPUS, fix="use more --text, with --overwrite")
    _make_labelled_files(folder)


def _make_text(folder: QuickstartFolder) -> None:
    if (folder.path / TEXT).exists():
        return
    with folder.timed(TEXT), folder.new_folder(TEXT) as new:
        summary = write_text(new, reference=not folder.settings.text)
    folder.events.say(f"text: {summary}")


def write_text(folder: Path, *, reference: bool) -> str:
    """Write the training passages and, with `reference`, Python's language reference; returns a summary."""
    passages = _passages("train")
    for passage in passages:
        _write(folder / f"almanac-{passage.id}.txt", passage.text.replace("\n", " "))
    almanac = f"{len(passages)} passages of the almanac"
    if not reference:
        return f"your text and {almanac}"
    topics = _python_reference()
    for name, text in topics.items():
        _write(folder / f"python-{name}.txt", text)
    if not topics:
        return f"{almanac} only: this Python has no language reference (pydoc_data)"
    return f"{almanac} and {len(topics)} topics of the Python language reference"


def _python_reference() -> dict[str, str]:
    """The topics of `help()`; some distributions of Python omit them."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return {}
    return dict(sorted(topics.items()))


def _write(path: Path, text: str) -> None:
    path.write_text(text.strip() + "\n", encoding="utf-8", newline="\n")


def _make_tokenizer(folder: QuickstartFolder) -> None:
    if (folder.path / TOKENIZER).exists():
        folder.events.say("tokenizer: already done")
        return
    done = 0

    def report(size: int) -> None:
        nonlocal done
        done += size
        folder.events.progress("training a tokenizer", done, None)

    with folder.timed(TOKENIZER), folder.new_folder(TOKENIZER) as new:
        files = open_plain_files(text_files(folder.path / TEXT, folder.settings.text), report)
        config = TokenizerConfig(kind="wordpiece", vocab_size=folder.settings.vocabulary)
        tokenizer = train_tokenizer(files, config)
        tokenizer.save(new)
    folder.events.say(f"tokenizer: vocabulary of {tokenizer.vocab_size:,}, trained on the text")


def make_corpus(folder: QuickstartFolder, name: str, tokenizer: Path) -> Counts:
    """Prepare the text as a corpus in `name`, with the tokenizer in a folder."""
    out = folder.path / name
    if (out / MANIFEST).is_file() and not (out / WORK).exists():
        folder.events.say(f"{name}: already done")
        return read_manifest(out).counts
    with folder.timed(name):
        plan = plan_corpus(folder.path / TEXT, folder.settings.text)

        def report(progress: Progress) -> None:
            folder.events.progress("preparing the corpus", progress.text_bytes, plan.text_bytes)

        counts = run_preparation(plan, tokenizer=Tokenizer.load(tokenizer), out=out, on_progress=report).counts
    folder.events.say(
        f"{name}: {counts.tokens:,} tokens, {counts.sentences:,} sentences, {counts.documents:,} documents"
    )
    return counts


def text_files(folder: Path, user_files: tuple[str, ...]) -> list[str]:
    """All files to train on, the user's own first."""
    return [*user_files, *map(str, sorted(folder.glob("*.txt")))]


def plan_corpus(folder: Path, user_files: tuple[str, ...]) -> Plan:
    """The preparation of the corpus; the layout of the user's own files is detected without the almanac's."""
    config = PrepareConfig(documents="file", lines="wrapped")
    if user_files:
        # Passages are files of one line, valid in every layout.
        config = plan_preparation(user_files, PrepareConfig(), file_format="txt").config
    return plan_preparation(text_files(folder, user_files), config, file_format="txt")


def _make_labelled_files(folder: QuickstartFolder) -> None:
    for task in TASKS:
        if (folder.path / task.name).exists():
            continue
        with folder.timed(task.name), folder.new_folder(task.name) as new:
            counts = write_labelled(new, task)
        sizes = ", ".join(f"{split} {count:,}" for split, count in counts.items())
        folder.events.say(f"{task.title} of the almanac: {sizes}")


def write_labelled(folder: Path, task: QuickstartTask) -> dict[str, int]:
    """Write a file of JSON lines for each split; returns the number of examples of each."""
    counts = {}
    for split in SPLITS:
        examples = list(_FILTERS[task.task](files_of(task.task).examples(_passages(split))))
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


_FILTERS: Mapping[str, Callable[[Iterable[Record]], Iterator[Record]]] = {
    "ner": _outermost_entities,
    "qa": _answered_questions,
}
