"""spaCy's documents: `.spacy` files (a `DocBin`), and `Doc` objects in Python.

A file or documents enter; rows with a text and its entities leave: those of `doc.ents` and of the group
`doc.spans["sc"]`, where spaCy keeps spans that overlap. A document that says nothing about entities has no `spans`, so
that it can be predicted and not trained on. Of a file only words and entities are read, not its user data.
Documents are counted from 1, in place of lines.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanlab.errors import InputError, MissingExtraError
from spanlab.tasks.formats.row import Row

if TYPE_CHECKING:
    from spacy.tokens import Doc, DocBin

OVERLAPPING = "sc"
"""The group of spans that spaCy's own span categoriser writes and displaCy draws."""
_READ = ("ORTH", "ENT_IOB", "ENT_TYPE")
"""The attributes of tokens that are read."""
_BYTES, _EXPANSION, _ALWAYS_ALLOWED = 1 << 22, 200, 64 << 20
"""How much is decompressed at once, how many times its size a file may expand to, and what any file may."""
_FIX = "write it again with DocBin(docs=docs).to_disk(…)"


def is_doc(value: object) -> bool:
    """Whether this is a `Doc` of spaCy's, which is then installed."""
    return type(value).__module__.startswith("spacy.tokens") and hasattr(value, "ents")


def doc_values(doc: "Doc") -> dict[str, Any]:
    """The fields of a row."""
    overlapping = doc.spans.get(OVERLAPPING)
    if not doc.has_annotation("ENT_IOB") and overlapping is None:
        return {"text": doc.text}
    spans = {(span.start_char, span.end_char, span.label_) for span in (*doc.ents, *(overlapping or ()))}
    return {
        "text": doc.text,
        "spans": [{"start": start, "end": end, "label": label} for start, end, label in sorted(spans)],
    }


def read_docbin(path: str) -> Iterator[Row | InputError]:
    """A row for each document of a file."""
    try:
        from spacy.vocab import Vocab
    except ModuleNotFoundError:
        raise MissingExtraError("spacy", f"reading {path}") from None
    try:
        for number, doc in enumerate(_load(path).get_docs(Vocab()), start=1):
            yield Row(values=doc_values(doc), path=path, line=number)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # of any type, by what is damaged
        raise InputError(f"not a file of spaCy documents ({_first_line(error)})", path=path, fix=_FIX) from None


def _load(path: str) -> "DocBin":
    """The documents of a file, reduced to what is read."""
    from spacy.attrs import intify_attr
    from spacy.tokens import DocBin

    data = Path(path).read_bytes()
    _check_size(path, data)
    docs = DocBin().from_bytes(data)
    wanted = [intify_attr(name) for name in _READ]
    columns = [docs.attrs.index(attribute) for attribute in wanted if attribute in docs.attrs]
    docs.attrs = [docs.attrs[column] for column in columns]
    docs.tokens = [tokens[:, columns] for tokens in docs.tokens]
    docs.user_data = [None] * len(docs.tokens)
    return docs


def _check_size(path: str, data: bytes) -> None:
    """Refuse a file that expands like no text does, before it is decompressed as a whole."""
    largest = max(_ALWAYS_ALLOWED, _EXPANSION * len(data))
    decompressor, total, rest = zlib.decompressobj(), 0, data
    while rest:
        total += len(decompressor.decompress(rest, _BYTES))
        rest = decompressor.unconsumed_tail
        if total > largest:
            cause = f"expands to more than {_EXPANSION} times its size, which no text does"
            raise InputError(cause, path=path, fix=_FIX)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:120]
