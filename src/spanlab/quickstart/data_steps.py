"""The first part of a quickstart: text, a tokenizer, prepared corpora, and the labelled files of the tasks."""

from pathlib import Path

from spanlab.corpus.manifest import MANIFEST, WORK, Counts, read_manifest
from spanlab.corpus.prepare.run import Progress, run_preparation
from spanlab.errors import InputError
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.labelled import write_labelled
from spanlab.quickstart.plan import CORPUS, TASKS, TEXT, TOKENIZER
from spanlab.quickstart.texts import plan_corpus, text_files, write_text
from spanlab.text import Tokenizer
from spanlab.text.plain_files import open_plain_files
from spanlab.text.train import TokenizerConfig, train_tokenizer

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
