"""The almanac: short passages in three languages with every layer of labels, written for SpanLab.

`load()` gives the shipped passages, `find(id)` one of them; `parse(source)` reads the same markup from anywhere. The
markup and the meaning of each label are told in docs/almanac-guide.md.
"""

from spanlab.samples.parse import Examination, examine, parse
from spanlab.samples.passage import Answer, Mention, Pair, Passage, Question, Relation, Sentence
from spanlab.samples.shipped import find, load

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
