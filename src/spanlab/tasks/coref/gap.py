"""GAP: whether a pronoun means one of two names, as an evaluation of coreference (Webster et al. 2018).

What enters is a row with `pronoun`, `a` and `b` as `[start, end]` and whether each name is meant. The three spans are
given to the model as mentions beside those that it finds itself; a name counts as meant if it ends up in the
pronoun's cluster.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanlab.tasks.validation import Problem

Range = tuple[int, int]
_MASCULINE = frozenset(["he", "him", "his", "himself"])
_FEMININE = frozenset(["she", "her", "hers", "herself"])


@dataclass(frozen=True, kw_only=True)
class GapQuestion:
    """A pronoun, two names, and which of them it means."""

    pronoun: Range
    names: tuple[Range, Range]
    meant: tuple[bool, bool] | None
    """None where nobody says."""

    @property
    def spans(self) -> tuple[Range, ...]:
        """All three."""
        return (self.pronoun, *self.names)

    def answer(self, clusters: Sequence[Sequence[Range]]) -> tuple[bool, bool]:
        """Which names are in the pronoun's cluster."""
        home = next((set(cluster) for cluster in clusters if self.pronoun in cluster), set[Range]())
        return self.names[0] in home, self.names[1] in home


def gender(pronoun: str) -> str | None:
    """`masculine`, `feminine`, or None for any other word."""
    word = pronoun.lower()
    return "masculine" if word in _MASCULINE else "feminine" if word in _FEMININE else None


def read_gap_question(values: Mapping[str, Any]) -> GapQuestion:
    """The question of a row without problems."""
    pronoun, a, b = ((int(values[name][0]), int(values[name][1])) for name in ("pronoun", "a", "b"))
    meant = values.get("a_coref"), values.get("b_coref")
    told = None if None in meant else (bool(meant[0]), bool(meant[1]))
    return GapQuestion(pronoun=pronoun, names=(a, b), meant=told)


def gap_problems(text: str, values: Mapping[str, Any], *, labelled: bool) -> Iterator[Problem]:
    """Spans outside the text, a pronoun of no gender, and what nobody says."""
    for name in ("pronoun", "a", "b"):
        span = values.get(name)
        if not isinstance(span, list | tuple) or len(span) != 2 or not 0 <= span[0] < span[1] <= len(text):
            yield Problem(kind="span outside the text", cause=f"'{name}' is {span}, in {len(text)} characters")
            return
    start, end = values["pronoun"]
    if gender(text[start:end]) is None:
        yield Problem(kind="no pronoun", cause=f"the pronoun is '{text[start:end]}'", fix="GAP asks about he and she")
    for name in ("a_coref", "b_coref"):
        if labelled and not isinstance(values.get(name), bool):
            yield Problem(kind="missing field", cause=f"'{name}' is {values.get(name)}", fix="write TRUE or FALSE")
