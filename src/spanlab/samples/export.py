"""The almanac as labelled files: passages enter, the examples of a task leave, in JSON lines and its standard format.

`export` writes one file for each split and format. All files are built before the first is written, so that an error
leaves the folder unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from spanlab.atomic_io import check_new_folder, disk_problem, write_files
from spanlab.errors import InputError, did_you_mean
from spanlab.samples import formats
from spanlab.samples.formats import Record, json_lines, table
from spanlab.samples.passage import LANGUAGES, SPLITS, Passage

Examples = Callable[[Sequence[Passage]], list[Record]]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which passages, and in which format; None selects all."""

    split: str | None = None
    language: str | None = None
    format: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExportedFile:
    """A file that was written, and its number of examples."""

    path: Path
    format: str
    split: str
    examples: int


@dataclass(frozen=True, kw_only=True)
class Format:
    """How the examples of a task are written to one file."""

    extension: str
    write: Callable[[Sequence[Passage]], str]


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """The examples of a task, and its formats by name, JSON lines first."""

    examples: Examples
    formats: Mapping[str, Format]
    labels_of: Callable[[Passage], set[str]] = lambda _: set()
    """The labels of a passage that training must know, for tasks that learn a fixed set."""


def export(
    passages: Sequence[Passage], task: str, out: Path, selection: Selection, *, overwrite: bool = False
) -> tuple[ExportedFile, ...]:
    """Write the examples of a task to `out`; a split without any gets no file."""
    check_new_folder(out, overwrite=overwrite)
    texts = build_files(passages, task, out, selection)
    write_exported(out, texts, {})
    return tuple(texts)


def write_exported(out: Path, texts: Mapping[ExportedFile, str], others: Mapping[str, str]) -> None:
    """Write exported files, and others by their names, to `out`: all of them or none."""
    contents = {str(file.path.relative_to(out)): text for file, text in texts.items()}
    try:
        write_files(out, {**contents, **others})
    except OSError as error:
        if disk_problem(error) is not None:
            raise
        cause = f"cannot be written ({error.strerror})"
        raise InputError(cause, path=error.filename, fix="choose another folder") from error


def build_files(passages: Sequence[Passage], task: str, out: Path, selection: Selection) -> dict[ExportedFile, str]:
    """The files of a task with their text, to be written to `out`."""
    files = files_of(task, label=selection.label)
    for option, name, known in (
        ("split", selection.split, SPLITS),
        ("language", selection.language, LANGUAGES),
        (f"format of {task}", selection.format, tuple(files.formats)),
    ):
        if name is not None:
            check_known(option, name, known)
    names = tuple(files.formats) if selection.format is None else (selection.format,)
    texts = {}
    passages = _learnable([p for p in passages if selection.language in {None, p.language}], files)
    for split in SPLITS if selection.split is None else (selection.split,):
        chosen = [passage for passage in passages if passage.split == split]
        examples = len(files.examples(chosen))
        for name in names if examples else ():
            format_ = files.formats[name]
            path = out / f"{split}.{format_.extension}"
            texts[ExportedFile(path=path, format=name, split=split, examples=examples)] = format_.write(chosen)
    if not texts:
        raise InputError(
            f"no passage has an example of {task} in this selection", fix="choose another split or language"
        )
    return texts


def _learnable(passages: Sequence[Passage], files: TaskFiles) -> Sequence[Passage]:
    """Without the dev and test passages with a label that no training passage has, which a model would refuse.

    The passages of a single language are few, so that some labels occur once.
    """
    trained = [files.labels_of(passage) for passage in passages if passage.split == "train"]
    known = set().union(*trained)
    return [passage for passage in passages if not trained or files.labels_of(passage) <= known]


def files_of(task: str, *, label: str | None = None) -> TaskFiles:
    """The examples and formats of a task; `label` chooses the labels of classification."""
    check_known("task", task, TASKS)
    if label is None:
        return TASKS[task]
    if task != "classification":
        raise InputError(f"{task} has no choice of labels", fix="leave --label out")
    check_known("label", label, CLASSIFICATION_LABELS)
    return CLASSIFICATION_LABELS[label]


def sample_settings(task: str, language: str | None) -> dict[str, Any]:
    """The settings that differ from a task's defaults if it is trained on its sample; None: on all its languages."""
    if task == "ner":
        # Entities are nested. Where languages are mixed, units are characters, and English names have up to 42 of them.
        return {"head": "span"} | ({"span": {"max_width": 48}} if language is None else {})
    if task == "generation":
        # A title needs the beginning of its passage, which may not fit a small model as a whole.
        return {"data": {"long_text": "truncate"}}
    if task == "translation":
        training = {"batch_size": 32, "lr": 2e-3, "epochs": 30.0}
        return {"head": "decoder", "choose_by": "bleu", "training": training}
    return {}


def check_known(what: str, name: str, known: Sequence[str] | Mapping[str, object]) -> None:
    """Raise on an unknown name, suggesting the nearest known one."""
    if name not in known:
        raise InputError(f"unknown {what} '{name}'{did_you_mean(name, known)}", fix=f"use one of {', '.join(known)}")


def topics(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its topic."""
    return [{"id": passage.id, "text": passage.text, "label": passage.topic} for passage in passages]


def sentiments(passages: Sequence[Passage]) -> list[Record]:
    """The passages that have a sentiment (reviews, letters), with it."""
    return [
        {"id": passage.id, "text": passage.text, "label": passage.sentiment}
        for passage in passages
        if passage.sentiment
    ]


def pairs(passages: Sequence[Passage]) -> list[Record]:
    """Pairs of sentences, labelled `same` in meaning or `different`."""
    return [
        {
            "id": f"{passage.id}-p{number}",
            "text_a": pair.text_a,
            "text_b": pair.text_b,
            "label": "same" if pair.same else "different",
        }
        for passage in passages
        for number, pair in enumerate(passage.pairs, start=1)
    ]


def entities(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its typed spans, outer before inner."""
    return [{"id": passage.id, "text": passage.text, "spans": typed_spans(passage)} for passage in passages]


def typed_spans(passage: Passage) -> list[Record]:
    """The entities of a passage, in the order of the text."""
    return [{"start": entity.start, "end": entity.end, "label": entity.label} for entity in passage.entities]


def questions(passages: Sequence[Passage]) -> list[Record]:
    """Every question with its context; `answers` is empty where the passage gives none."""
    return [
        {
            "id": question.id,
            "question": question.text,
            "context": passage.text,
            "answers": [{"text": answer.text, "start": answer.start} for answer in question.answers],
        }
        for passage in passages
        for question in passage.questions
    ]


def clusters(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its clusters; a dialogue also with its speakers, as `[start, end, name]` per turn."""
    records: list[Record] = []
    for passage in passages:
        record: dict[str, object] = {
            "id": passage.id,
            "text": passage.text,
            "clusters": [[[mention.start, mention.end] for mention in cluster] for cluster in passage.clusters],
        }
        if passage.style == "dialogue":
            record["speakers"] = _turns(passage)
        records.append(record)
    return records


def _turns(passage: Passage) -> list[tuple[int, int, str | None]]:
    turns = []
    for speaker, sentences in groupby(passage.sentences, key=lambda sentence: sentence.speaker):
        whole = list(sentences)
        turns.append((whole[0].start, whole[-1].end, speaker))
    return turns


def relations(passages: Sequence[Passage]) -> list[Record]:
    """Every passage with its typed spans and the relations between them, by their index."""
    records: list[Record] = []
    for passage in passages:
        labelled = []
        for relation in passage.relations:
            head, tail = formats.nearest_mentions(passage, relation)
            indexes = {"head": passage.entities.index(head), "tail": passage.entities.index(tail)}
            labelled.append({**indexes, "label": relation.label})
        records.append(
            {"id": passage.id, "text": passage.text, "entities": typed_spans(passage), "relations": labelled}
        )
    return records


def key_sentences(passages: Sequence[Passage]) -> list[Record]:
    """Every passage as its sentences, labelled 1 where they are key."""
    return [
        {
            "id": passage.id,
            "sentences": [passage.span(sentence) for sentence in passage.sentences],
            "labels": [int(sentence.key) for sentence in passage.sentences],
        }
        for passage in passages
    ]


def titles(passages: Sequence[Passage]) -> list[Record]:
    """Every passage as the source, its title as the target."""
    return [{"id": passage.id, "source": passage.text, "target": passage.title} for passage in passages]


def _task(
    examples: Examples, *, labels_of: Callable[[Passage], set[str]] = lambda _: set(), **others: Format
) -> TaskFiles:
    lines = Format(extension="jsonl", write=lambda passages: json_lines(examples(passages)))
    return TaskFiles(examples=examples, formats={"jsonl": lines, **others}, labels_of=labels_of)


def _relation_labels(passage: Passage) -> set[str]:
    return {relation.label for relation in passage.relations}


def _table(examples: Examples) -> Format:
    return Format(extension="tsv", write=lambda passages: table(examples(passages)))


TASKS: Mapping[str, TaskFiles] = {
    "classification": _task(topics, tsv=_table(topics), labels_of=lambda passage: {passage.topic}),
    "similarity": _task(pairs, tsv=_table(pairs)),
    "ner": _task(entities, conll=Format(extension="conll", write=formats.conll)),
    "qa": _task(questions, squad=Format(extension="json", write=formats.squad)),
    "coref": _task(clusters, conll2012=Format(extension="conll", write=formats.conll_2012)),
    "relation": _task(relations, labels_of=_relation_labels, semeval=Format(extension="txt", write=formats.semeval)),
    "summarisation": _task(key_sentences, summary=Format(extension="summary.jsonl", write=formats.summaries)),
    "generation": _task(titles),
}
# Classification has two sets of labels; topic is the default.
CLASSIFICATION_LABELS: Mapping[str, TaskFiles] = {
    "topic": TASKS["classification"],
    "sentiment": _task(
        sentiments,
        tsv=_table(sentiments),
        labels_of=lambda passage: {passage.sentiment} if passage.sentiment else set(),
    ),
}
