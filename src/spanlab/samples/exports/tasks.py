"""Which labelled files the almanac gives for each task: the examples, and the formats they can be written in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spanlab.errors import InputError, did_you_mean
from spanlab.samples.exports import classification, coref, generation, ner, qa, relation, similarity, summarisation
from spanlab.samples.exports.records import Record, json_lines, table
from spanlab.samples.passage import Passage

Examples = Callable[[Sequence[Passage]], list[Record]]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A way to write the examples of a task to one file."""

    extension: str
    write: Callable[[Sequence[Passage]], str]


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """The examples of a task, one a JSON line, and all formats by name, JSON lines first."""

    examples: Examples
    formats: Mapping[str, Format]


def _task(examples: Examples, **others: Format) -> TaskFiles:
    lines = Format(extension="jsonl", write=lambda passages: json_lines(examples(passages)))
    return TaskFiles(examples=examples, formats={"jsonl": lines, **others})


def _table(examples: Examples) -> Format:
    return Format(extension="tsv", write=lambda passages: table(examples(passages)))


TASKS: Mapping[str, TaskFiles] = {
    "classification": _task(classification.topics, tsv=_table(classification.topics)),
    "similarity": _task(similarity.pairs, tsv=_table(similarity.pairs)),
    "ner": _task(ner.entities, conll=Format(extension="conll", write=ner.columns)),
    "qa": _task(qa.questions, squad=Format(extension="json", write=qa.squad)),
    "coref": _task(coref.clusters, conll2012=Format(extension="conll", write=coref.conll_2012)),
    "relation": _task(relation.relations, semeval=Format(extension="txt", write=relation.semeval)),
    "summarisation": _task(
        summarisation.key_sentences, summary=Format(extension="summary.jsonl", write=summarisation.summaries)
    ),
    "generation": _task(generation.titles),
}
# Classification has a second set of labels; the first is the one a user gets without asking.
CLASSIFICATION_LABELS: Mapping[str, TaskFiles] = {
    "topic": TASKS["classification"],
    "sentiment": _task(classification.sentiments, tsv=_table(classification.sentiments)),
}


def files_of(task: str, *, label: str | None = None) -> TaskFiles:
    """The files of a task; `label` chooses what passages are classified by."""
    check_known("task", task, TASKS)
    if label is None:
        return TASKS[task]
    if task != "classification":
        raise InputError(f"{task} has no choice of labels", fix="leave --label out")
    check_known("label", label, CLASSIFICATION_LABELS)
    return CLASSIFICATION_LABELS[label]


def check_known(what: str, name: str, known: Sequence[str] | Mapping[str, object]) -> None:
    """Refuse a name that is not known, with the nearest one that is."""
    if name not in known:
        raise InputError(f"unknown {what} '{name}'{did_you_mean(name, known)}", fix=f"use one of {', '.join(known)}")
