"""The almanac: short passages in three languages, labelled for every task, written for SpanLab.

`load()` gives the shipped passages, `find(id)` one of them; `parse(source)` reads the same markup from any source. The
markup and the labels are described in docs/almanac-guide.md.
"""

from spanlab.samples.parse import Examination, examine, find, load, parse
from spanlab.samples.passage import Answer, Mention, Pair, Passage, Question, Relation, Sentence

__all__ = [
    "Answer",
    "Examination",
    "Mention",
    "Pair",
    "Passage",
    "Question",
    "Relation",
    "Sentence",
    "examine",
    "find",
    "load",
    "parse",
]
