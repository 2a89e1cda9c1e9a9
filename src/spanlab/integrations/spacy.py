"""The spaCy component `spanlab`: the results of a model's tasks are written to the attributes of a `Doc`.

    nlp.add_pipe("spanlab", config={"model": "reader", "tasks": ["entities", "coref", "relations"]})

| task | in the Doc |
|---|---|
| entities | the outermost in `doc.ents`; nested ones too in `doc.spans[spans_key]`, with `attrs["scores"]` |
| coreference | each cluster in `doc.spans["coref_1"]`, …; all in `doc._.clusters`; `doc._.resolved` |
| relations | `doc._.triples`: dicts of subject, relation, object, their types, characters and a score |
| classification | `doc.cats` |
| summarisation, generation | `doc._.summary`; the summary's sentences in `doc.spans["summary"]` |
| question answering | `doc._.ask("…")` gives a result with `answer`, `score`, `start` and `end` |

SpanLab's offsets are characters and spaCy's are tokens of its own: `alignment` says what becomes of a span that ends
inside a token. spaCy imports this module whenever a pipeline is made, so it imports nothing slow; the model is loaded
at the first document, and may by then have come with the pipeline's folder.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4
from weakref import WeakValueDictionary

import srsly
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.util import ensure_path, filter_spans, minibatch
from typing_extensions import override

from spanlab.atomic_io import write_atomically
from spanlab.errors import InputError, RunError, SpanlabError
from spanlab.strict_parsing import read_json

if TYPE_CHECKING:
    from spanlab.inference.predictor import Predictor
    from spanlab.tasks.coref.data import CorefResult
    from spanlab.tasks.ner.data import NerResult
    from spanlab.tasks.qa.data import QaResult
    from spanlab.tasks.relation.data import RelationResult
    from spanlab.tasks.summarisation.data import SummaryResult

Alignment = Literal["expand", "contract", "strict"]
Device = Literal["auto", "cpu", "cuda", "mps"]
_COREF = "coref_"
"""Groups of `doc.spans` that are clusters are called this and a number, from 1."""
_READ_BY = "spanlab"
"""The key of `doc.user_data` that says which component has read a document."""
_STATE, _MODEL = "spanlab.json", "model"
_components: "WeakValueDictionary[str, SpanLabPipe]" = WeakValueDictionary()
"""By what `_READ_BY` says, so that `doc._.ask` finds the model."""


class SpanLabPipe(Pipe):  # type: ignore[misc]
    """A component of spaCy around a predictor."""

    def __init__(
        self, name: str, model: str, *, tasks: Sequence[str], spans_key: str, alignment: Alignment, device: Device
    ) -> None:
        self.name, self.model, self.device = name, model, device
        self.tasks, self.spans_key, self.alignment = tuple(tasks), spans_key, alignment
        self._predictor: Predictor | None = None
        self._unpacked: tempfile.TemporaryDirectory[str] | None = None
        self._key = uuid4().hex
        _components[self._key] = self

    @property
    def predictor(self) -> "Predictor":
        """The loaded model."""
        if self._predictor is None:
            from spanlab.inference.load import load

            self._predictor = load(self.model, device=self.device)
        return self._predictor

    @property
    @override
    def labels(self) -> tuple[str, ...]:
        """Those of entities and of classes; none before a model is loaded, since spaCy asks before it has come."""
        if self._predictor is None:
            return ()
        fitted = {"ner": "entity_labels", "classification": "labels"}
        tasks = (self.predictor.model.tasks[name] for name in self._task_names())
        found = (getattr(task.fitted, fitted[task.name]) for task in tasks if task.name in fitted)
        return tuple(dict.fromkeys(label for labels in found for label in labels))

    @override
    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    @override
    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """The documents in order, computed in batches; what fails goes to the pipeline's error handler."""
        for docs in minibatch(stream, size=batch_size):
            try:
                self._annotate(docs)
            except (SpanlabError, RunError) as error:
                self.get_error_handler()(self.name, self, docs, error)
                continue
            yield from docs

    @override
    def score(self, examples: Iterable[Example], **kwargs: object) -> dict[str, Any]:
        """Precision, recall and F1 of `doc.ents`, for `nlp.evaluate`."""
        return dict(get_ner_prf(examples))

    def ask(self, doc: Doc, question: str) -> "QaResult":
        """The answer to a question about a document."""
        tasks = self.predictor.model.tasks
        name = next((name for name, task in tasks.items() if task.name == "qa"), None)
        if name is None:
            known = f"its tasks are {', '.join(tasks)}" if tasks else "it is an encoder only"
            raise InputError(f"the model answers no questions: {known}", fix="use one with the task qa, such as reader")
        (result,) = self.predictor.predict((question, doc.text), task=name)
        return result  # type: ignore[no-any-return]

    # ---- results to documents

    def _annotate(self, docs: Sequence[Doc]) -> None:
        from spanlab.tasks.formats.row import Row

        names = self._task_names()
        rows = (Row(values={"text": doc.text}, path=f"document {index}") for index, doc in enumerate(docs))
        results = self.predictor.predict_together(rows, tasks=names)
        for doc, by_task in zip(docs, results, strict=True):
            doc.user_data[_READ_BY] = self._key
            self._write(doc, by_task)

    def _task_names(self) -> tuple[str, ...]:
        """The chosen tasks, or all that take one text and nothing else."""
        model = self.predictor.model
        if not self.tasks:
            return self.predictor.names_for("")
        names = model.names_of(self.tasks)
        for name in names:
            required = model.tasks[name].shape.required
            if len(required) != 1:
                fix = "leave it out, and ask with doc._.ask" if model.tasks[name].name == "qa" else "leave it out"
                raise InputError(f"the task '{name}' takes {' and '.join(required)}, and a Doc is one text", fix=fix)
        return names

    def _write(self, doc: Doc, results: Mapping[str, Any]) -> None:
        tasks = self.predictor.model.tasks
        clusters = next((result.clusters for name, result in results.items() if tasks[name].name == "coref"), ())
        shared = _shared_labels(tasks[name].fitted.labels for name in results if tasks[name].name == "classification")
        for name, result in results.items():
            match tasks[name].name:
                case "ner":
                    self._write_entities(doc, result)
                case "coref":
                    self._write_clusters(doc, result)
                case "relation":
                    doc._.triples = _triples(result, clusters)
                case "classification":
                    scores = result.scores.items()
                    doc.cats |= {f"{name}.{label}" if label in shared else label: score for label, score in scores}
                case "summarisation":
                    self._write_summary(doc, result)
                case "generation":
                    doc._.summary = result.text

    def _write_entities(self, doc: Doc, result: "NerResult") -> None:
        aligned = [(self._span(doc, entity.start, entity.end, entity.label), entity.score) for entity in result.spans]
        kept = [(span, score) for span, score in aligned if span is not None]
        spans = [span for span, _ in kept]
        attrs = {"scores": [score for _, score in kept]}
        doc.spans[self.spans_key] = SpanGroup(doc, name=self.spans_key, spans=spans, attrs=attrs)
        doc.ents = filter_spans(spans)  # of those that overlap, the longest

    def _write_clusters(self, doc: Doc, result: "CorefResult") -> None:
        for key in [key for key in doc.spans if key.startswith(_COREF)]:
            del doc.spans[key]
        for number, cluster in enumerate(result.clusters, start=1):
            key = f"{_COREF}{number}"
            spans = (self._span(doc, start, end, key) for start, end in cluster)
            doc.spans[key] = [span for span in spans if span is not None]
        doc._.resolved = result.resolved()

    def _write_summary(self, doc: Doc, result: "SummaryResult") -> None:
        spans = (self._span(doc, sentence.start, sentence.end, "summary") for sentence in result.sentences)
        doc.spans["summary"] = [span for span in spans if span is not None]
        doc._.summary = result.summary

    def _span(self, doc: Doc, start: int, end: int, label: str) -> Span | None:
        return doc.char_span(start, end, label=label, alignment_mode=self.alignment)

    # ---- with the pipeline: a model in the box or on the hub by its name, any other with its files

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component into a folder of the pipeline's."""
        from shutil import copytree

        folder = ensure_path(path)
        folder.mkdir(parents=True, exist_ok=True)
        srsly.write_json(folder / _STATE, {"model": self._saved_name()})
        files = self._files()
        if files is not None and _MODEL not in exclude:
            copytree(files, folder / _MODEL, dirs_exist_ok=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SpanLabPipe":
        """Read what `to_disk` wrote."""
        folder = ensure_path(path)
        state = read_json(folder / _STATE)
        if (folder / _MODEL).is_dir() and _MODEL not in exclude:
            self._use(str(folder / _MODEL))
        elif isinstance(state, dict) and isinstance(state.get("model"), str):
            self._use(state["model"])
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The component with its model's files."""
        folder = None if _MODEL in exclude else self._files()
        contents = {}
        if folder is not None:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        data: bytes = srsly.msgpack_dumps({"model": self._saved_name(), "files": contents})
        return data

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "SpanLabPipe":
        """Read what `to_bytes` gave; a model's files are unpacked into a temporary folder."""
        state = srsly.msgpack_loads(data)
        assert isinstance(state, dict)
        if state["files"] and _MODEL not in exclude:
            unpacked = tempfile.TemporaryDirectory(prefix="spanlab-")
            for name, content in state["files"].items():
                _write_within(Path(unpacked.name), name, content)
            self._unpacked = unpacked
            self._use(unpacked.name)
        elif isinstance(state["model"], str):
            self._use(state["model"])
        return self

    def _use(self, model: str) -> None:
        if model != self.model:
            self.model, self._predictor = model, None

    def _files(self) -> Path | None:
        """The folder to be saved; None for a model that any installation finds by its name."""
        from spanlab.encoder.pretrained import locate_model

        return locate_model(self.model) if Path(self.model).expanduser().exists() else None

    def _saved_name(self) -> str | None:
        return self.model if self._files() is None else None


def _triples(result: "RelationResult", clusters: Sequence[Sequence[Sequence[int]]]) -> list[dict[str, Any]]:
    """The relations as plain values, which a Doc can be saved with; the id of the text says nothing here."""
    from spanlab.tasks.relation.triples import document_triples

    return [
        {name: value for name, value in asdict(triple).items() if name != "source"}
        for triple in document_triples(result, clusters)
    ]


def _shared_labels(label_sets: Iterable[Sequence[str]]) -> set[str]:
    """Labels that several tasks have: in `doc.cats` they are called `task.label`."""
    counts = Counter(label for labels in label_sets for label in labels)
    return {label for label, count in counts.items() if count > 1}


def _write_within(folder: Path, name: str, content: bytes) -> None:
    """Write a file under a name that is from outside, which must not lead out of the folder."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"the pipeline names a file '{name}', outside its model", fix="do not use it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


# ---- attributes of documents


def clusters_of(doc: Doc) -> list[list[Span]]:
    """`doc._.clusters`: the mentions of each cluster."""
    numbers = sorted(int(key.removeprefix(_COREF)) for key in doc.spans if key.startswith(_COREF))
    return [list(doc.spans[f"{_COREF}{number}"]) for number in numbers]


def ask(doc: Doc, question: str) -> "QaResult":
    """`doc._.ask("…")`: the answer of the model that read the document."""
    component = _components.get(doc.user_data.get(_READ_BY, ""))
    if component is None:
        raise InputError("no spanlab component that is here has read this document", fix="pass it through the pipeline")
    return component.ask(doc, question)


def _add_attributes() -> None:
    """Attributes that another package has defined under the same name are left alone."""
    attributes: dict[str, dict[str, Any]] = {
        "clusters": {"getter": clusters_of},
        "resolved": {"default": None},
        "triples": {"default": []},
        "summary": {"default": None},
        "ask": {"method": ask},
    }
    for name, options in attributes.items():
        if not Doc.has_extension(name):
            Doc.set_extension(name, **options)


_add_attributes()
_ASSIGNED = ["doc.ents", "doc.spans", "doc.cats", "doc._.clusters", "doc._.resolved", "doc._.triples", "doc._.summary"]


@Language.factory("spanlab", assigns=_ASSIGNED)  # type: ignore[untyped-decorator]
def make_component(
    nlp: Language,
    name: str,
    model: str = "reader",
    tasks: list[str] = [],  # noqa: B006 (spaCy copies the default into the pipeline's config)
    spans_key: str = "sc",
    alignment: Alignment = "expand",
    device: Device = "auto",
) -> SpanLabPipe:
    """The component of a pipeline.

    Args:
        nlp: the pipeline.
        name: of the component in it.
        model: a model folder, a run folder, a name in `spanlab models` or a Hugging Face id.
        tasks: the tasks to run, by their names in the model; empty: all that take one text.
        spans_key: the group of `doc.spans` for entities; "sc" is what displaCy draws.
        alignment: of spans that end inside a token of spaCy's: the whole token is in (expand) or out (contract), or the
            span is left out (strict).
        device: the device to run on.
    """
    return SpanLabPipe(name, model, tasks=tasks, spans_key=spans_key, alignment=alignment, device=device)
