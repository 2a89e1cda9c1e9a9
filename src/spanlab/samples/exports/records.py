"""Examples as lines of text: JSON lines, and tables of tab-separated values.

A table has a header and no quoting, as in GLUE: a value is everything between two tabs. A line feed inside a text
becomes a space there, one character for one; JSON lines keep it.
"""

import json
from collections.abc import Mapping, Sequence

Record = Mapping[str, object]


def json_lines(records: Sequence[Record]) -> str:
    """One JSON object a line."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(records: Sequence[Record]) -> str:
    """A header with the keys of the records, then a line for each."""
    rows = [list(records[0]), *([str(value) for value in record.values()] for record in records)]
    return "".join("\t".join(value.replace("\n", " ") for value in row) + "\n" for row in rows)
