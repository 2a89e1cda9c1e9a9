"""Facts of a knowledge graph: files of triples in, training text or the names of entities out.

| file | triples |
|---|---|
| `.tsv` | three columns without a header: subject, relation, object |
| `.csv` | columns `subject`, `relation`, `object` by their header, as `predict --format triples-csv` writes them |
| `.nt` | N-Triples: facts between entities that have an `rdfs:label`, as `--format triples-nt` writes them |

A fact becomes a sentence by the template of its relation, by default "SUBJECT RELATION OBJECT." with the relation's
name in words. The sentences of a subject stand together as one document, in the order of the file: what is learned
about an entity is learned in the context of its other facts.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from spanlab.errors import InputError

_COLUMNS = ("subject", "relation", "object")
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_STATEMENT = re.compile(r'^(<[^>]*>|_:\S+)\s+(<[^>]*>)\s+(<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"\S*)\s*\.\s*(?:#.*)?$')
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_PLAIN = {"t": "\t", "n": "\n", "r": "\r"}
_FORMULA_QUOTE = re.compile(r"^'(?=[=+\-@\t\r])")
"""How triples-csv keeps spreadsheets from running text."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A triple by its names."""

    subject: str
    relation: str
    object: str


def read_facts(path: str | Path) -> list[Fact]:
    """The facts of a file, in its order; a fact that stands there several times is read once."""
    path = Path(path)
    readers = {".tsv": _read_tsv, ".csv": _read_csv, ".nt": _read_n_triples}
    if path.suffix.lower() not in readers:
        raise InputError("not a file of triples by its name", path=path, fix=f"name it {', '.join(readers)}")
    facts = list(dict.fromkeys(readers[path.suffix.lower()](path)))
    if not facts:
        needs = "; entities of N-Triples need an rdfs:label" if path.suffix.lower() == ".nt" else ""
        raise InputError(f"no triples{needs}", path=path)
    return facts


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise InputError(f"not a file of UTF-8 text ({error})", path=path) from None


def _read_tsv(path: Path) -> Iterator[Fact]:
    for number, line in enumerate(_lines(path), start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not any(cells):
            continue
        if len(cells) != 3 or not all(cells):
            cause = f"{len(cells)} columns, of which {sum(map(bool, cells))} hold text"
            raise InputError(cause, path=path, line=number, fix="write subject, relation and object, with tabs between")
        yield Fact(subject=cells[0], relation=cells[1], object=cells[2])


def _read_csv(path: Path) -> Iterator[Fact]:
    rows = csv.DictReader(_lines(path))
    missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise InputError(f"no column '{missing[0]}'", path=path, line=1, fix=f"name columns {', '.join(_COLUMNS)}")
    for row in rows:
        cells = [_FORMULA_QUOTE.sub("", (row[name] or "").strip()) for name in _COLUMNS]
        if not all(cells):
            raise InputError("an empty subject, relation or object", path=path, line=rows.line_num, fix="drop the row")
        yield Fact(subject=cells[0], relation=cells[1], object=cells[2])


def _read_n_triples(path: Path) -> Iterator[Fact]:
    labels: dict[str, str] = {}
    statements: list[tuple[str, str, str]] = []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parsed = _STATEMENT.match(line.strip())
        if parsed is None:
            raise InputError("not a statement of N-Triples", path=path, line=number)
        subject, relation, object_ = parsed.groups()
        if relation == _LABEL and object_.startswith('"'):
            labels.setdefault(subject, _unescape(object_[1 : object_.rindex('"')]))
        elif not object_.startswith('"'):
            statements.append((subject, relation, object_))
    for subject, relation, object_ in statements:
        if subject in labels and object_ in labels:
            name = unquote(re.split(r"[/#:]", relation.strip("<>"))[-1])
            yield Fact(subject=labels[subject], relation=name, object=labels[object_])


def _unescape(text: str) -> str:
    def plain(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if code[0] in "uU" and len(code) > 1 else _PLAIN.get(code, code)

    return _ESCAPED.sub(plain, text)


def relation_words(relation: str) -> str:
    """The name of a relation as words: bornIn, born_in, per:born-in → born in."""
    name = relation.rpartition(":")[2]
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"[_\-\s]+", " ", name)).strip()
    return spaced.lower() if re.search(r"[a-z]", spaced) else spaced


def read_templates(path: str | Path) -> dict[str, str]:
    """Templates by relation, from lines of `RELATION<tab>{subject} was born in {object}.`."""
    templates = {}
    for number, line in enumerate(_lines(Path(path)), start=1):
        if not line.strip():
            continue
        relation, tab, template = (part.strip() for part in line.partition("\t"))
        if not tab and "\t" not in line:
            raise InputError("no tab", path=path, line=number, fix="write RELATION, a tab, and the template")
        if "{subject}" not in template or "{object}" not in template:
            fix = "write a sentence with both, such as {subject} was born in {object}."
            raise InputError("a template without {subject} or {object}", path=path, line=number, fix=fix)
        templates[relation] = template
    return templates


def verbalise(facts: Iterable[Fact], templates: Mapping[str, str] | None = None) -> Iterator[list[str]]:
    """The sentences about each subject, subjects in the order of their first fact."""
    by_subject: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        template = (templates or {}).get(fact.relation, f"{{subject}} {relation_words(fact.relation)} {{object}}.")
        # Replaced in one pass: a name that looks like a place holder stays as it is.
        parts = re.split(r"(\{subject\}|\{object\})", template)
        names = {"{subject}": fact.subject, "{object}": fact.object}
        sentence = "".join(names.get(part, part) for part in parts)
        by_subject[fact.subject].append(" ".join(sentence.split()))
    yield from by_subject.values()


def names_of(facts: Iterable[Fact]) -> list[str]:
    """The names of all entities, each once."""
    return list(dict.fromkeys(name for fact in facts for name in (fact.subject, fact.object)))
