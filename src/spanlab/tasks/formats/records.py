"""Examples that are objects of Python, not a file: mappings, tables, Hugging Face datasets, spaCy's `Doc`s.

What enters is any iterable of them, or a table of pandas or polars; what leaves is rows, in order, counted from 0. None
of these libraries is imported: an object that is one of theirs says so itself. A dataset's classes, which are numbers
in its rows, become their names; words with tags, a text with spans; SQuAD's pair of lists, a list of answers.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spanlab.atomic_io import open_atomically
from spanlab.errors import InputError, clip_repr
from spanlab.tasks.formats.columns import join_words
from spanlab.tasks.formats.reading import rename_keys
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.formats.spacy_docs import doc_values, is_doc
from spanlab.text.tag_schemes import tags_to_spans

EXAMPLES = "examples"
"""What stands in messages for the path of a file."""
_WORDS, _TAGS = ("tokens", "words"), ("ner_tags", "tags")


def read_records(records: Iterable[Any], shape: FileShape, columns: Sequence[str] = ()) -> Iterator[Row | InputError]:
    """A row for each record, its keys renamed to fields by `columns` or by the other names that the fields go by."""
    yield from rename_keys(_rows(records), shape, columns)


def write_records(path: Path, records: Iterable[Any]) -> None:
    """The records as a file of JSON lines, which a run can be repeated with; keys are renamed when it is read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_atomically(path) as file:
        for row in _rows(records):
            if isinstance(row, InputError):
                raise row
            # Other columns of a table may hold anything; as text they do no harm.
            line = json.dumps(dict(row.values), ensure_ascii=False, default=str) + "\n"
            file.write(line.encode("utf-8", "backslashreplace"))


def _rows(records: Iterable[Any]) -> Iterator[Row | InputError]:
    for index, item in enumerate(items_of(records)):
        path = f"example {index}"
        if isinstance(item, Mapping):
            yield Row(values=item, path=path)
        else:
            yield InputError(f"is {clip_repr(item)}", path=path, fix="give mappings with the fields of a labelled file")


def is_one(inputs: object) -> bool:
    """Whether this is a single input and not several; a dictionary of data sets is several."""
    several = isinstance(inputs, Mapping) and type(inputs).__module__.startswith("datasets")
    return (isinstance(inputs, str | tuple | Mapping) and not several) or is_doc(inputs)


def items_of(inputs: Iterable[Any]) -> Iterator[Any]:
    """The items of an iterable: rows of tables and datasets and spaCy's documents as mappings, missing texts as ''."""
    if isinstance(inputs, Mapping):
        cause = f"these are several sets: {', '.join(map(str, inputs))}"
        raise InputError(cause, fix=f"choose one, such as dataset[{next(iter(inputs), '')!r}]")
    names = _class_names(getattr(inputs, "features", None))
    for item in _table_rows(inputs):
        if is_doc(item):
            yield doc_values(item)
        elif isinstance(item, Mapping):
            yield _plain_values(item, names)
        else:
            yield "" if _is_missing(item) else item


def _table_rows(inputs: Iterable[Any]) -> Iterable[Any]:
    """The rows of a table; iterating over one of pandas would give the names of its columns."""
    module = type(inputs).__module__.partition(".")[0]
    if hasattr(inputs, "columns") and module == "pandas":
        return inputs.to_dict("records")  # type: ignore[attr-defined, no-any-return]
    if hasattr(inputs, "columns") and module == "polars":
        return inputs.iter_rows(named=True)  # type: ignore[attr-defined, no-any-return]
    return inputs


def _class_names(features: object) -> dict[str, Sequence[str]]:
    """The names of a dataset's classes by column; those of lists of classes, too."""
    if not isinstance(features, Mapping):
        return {}
    classes = {key: getattr(getattr(feature, "feature", feature), "names", None) for key, feature in features.items()}
    return {key: names for key, names in classes.items() if names is not None}


def _plain_values(item: Mapping[str, Any], class_names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    values = {key: None if _is_missing(value) else value for key, value in item.items()}
    for key, names in class_names.items():
        if key in values:
            values[key] = _named(values[key], names)
    words, tags = (_first_list(values, keys) for keys in (_WORDS, _TAGS))
    if words and "text" not in values and len(words) == len(tags) and all(isinstance(tag, str) for tag in tags):
        values |= _tagged(words, tags)
    answers = values.get("answers")
    if isinstance(answers, Mapping) and {"text", "answer_start"} <= answers.keys():
        pairs = zip(answers["text"], answers["answer_start"], strict=True)
        values["answers"] = [{"text": text, "start": start} for text, start in pairs]
    return values


def _first_list(values: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    return next((values[key] for key in keys if isinstance(values.get(key), list)), [])


def _named(value: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 (a class, several, or none)
    """The names of classes; -1 is how data sets write that a label is not given."""
    if isinstance(value, list):
        return [_named(part, names) for part in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def _tagged(words: Sequence[str], tags: Sequence[str]) -> dict[str, Any]:
    """The text of words, and the spans of their tags."""
    text, ranges = join_words(words, spaced=False)
    spans = [
        {"start": ranges[span.start][0], "end": ranges[span.end - 1][1], "label": span.label}
        for span in tags_to_spans(tags, "IOB2")  # read leniently, which takes any scheme
    ]
    return {"text": text, "spans": spans, "words": [list(word) for word in ranges]}


def _is_missing(value: object) -> bool:
    """Whether a cell of a table is empty: None, NaN, or pandas' own sign for it."""
    is_nan = isinstance(value, float) and value != value  # noqa: PLR0124 (only a NaN differs from itself)
    return value is None or is_nan or type(value).__name__ == "NAType"
