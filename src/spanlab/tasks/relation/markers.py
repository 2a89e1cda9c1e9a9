"""Entity markers: tokens that show an encoder which two entities of a text it is asked about.

What enters are the tokens of a text and a pair of its entities; what leaves is the same text with the pair marked:

- `text`: `[E1] Anna [/E1]` around the words, whatever the entity is;
- `type`: `[E1:PER]` in place of the words, as SpanBERT was fine-tuned on TACRED: names cannot be learnt by heart;
- `both`: `[E1:PER] Anna [/E1:PER]` around the words.

A marker is one of the vocabulary's unused tokens where it has enough of them, as BERT's has; else it is spelled out in
ordinary tokens, so any tokenizer will do and no embedding is added.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spanlab.arrays import Flags, Integers
from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.spans.labelled import TextSpan
from spanlab.text import Tokenizer
from spanlab.text.tokens import Tokens

MarkerKind = Literal["text", "type", "both"]
_UNUSED = re.compile(r"[\[<]unused_?\d+[\]>]")


@dataclass(frozen=True)
class TokenRange:
    """Tokens `first` to `last`, both inclusive, of a text."""

    first: int
    last: int


def token_range(tokens: Tokens, span: TextSpan) -> TokenRange | None:
    """The tokens that hold a character of a span; None where there is none, as of signs the tokenizer drops."""
    first = int(np.searchsorted(tokens.ends, span.start, side="right"))
    last = int(np.searchsorted(tokens.starts, span.end, side="left")) - 1
    return TokenRange(first, last) if first <= last else None


@dataclass(frozen=True, eq=False, kw_only=True)
class MarkedText:
    """The tokens of a text with a pair marked."""

    tokens: Tokens
    """Offsets of markers are 0: they stand nowhere in the user's string."""
    fixed: Flags
    """(N,) markers and the entities themselves."""


class EntityMarkers:
    """The markers of a set of entity labels in a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, kind: MarkerKind, roles: tuple[str, str], labels: Sequence[str]) -> None:
        """`roles` are the names of the first and the second of a pair."""
        self.kind, self.labels = kind, tuple(labels)
        names = list(marker_names(kind, roles, labels))
        unused = [number for number, token in enumerate(tokenizer.vocabulary) if _UNUSED.fullmatch(token)]
        if len(unused) >= len(names):
            spelled = [np.array([number], np.int64) for number in unused[: len(names)]]
        else:
            spelled = [tokens.ids.astype(np.int64) for tokens in tokenizer.encode_batch(names)]
        self._ids = dict(zip(names, spelled, strict=True))
        self._roles = roles

    def of(self, place: int, label: str) -> tuple[Integers, Integers]:
        """The ids before and behind the first (0) or the second (1) of a pair; `type` has none behind."""
        role = self._roles[place]
        name = role if self.kind == "text" else f"{role}:{known_label(label, self.labels)}"
        closing = f"[/{name}]"
        return self._ids[f"[{name}]"], self._ids.get(closing, np.zeros(0, np.int64))

    def mark(self, tokens: Tokens, pair: Sequence[TokenRange], labels: Sequence[str]) -> MarkedText:
        """The text with both entities marked; of nested ones, the outer one's markers lie outside."""
        inserted = []
        kept, fixed = np.ones(len(tokens), bool), np.zeros(len(tokens), bool)
        for place, (entity, label) in enumerate(zip(pair, labels, strict=True)):
            before, behind = self.of(place, label)
            here = slice(entity.first, entity.last + 1)
            fixed[here] = True
            if self.kind == "type":
                kept[here] = False
            inserted.append(((entity.first, 1, -entity.last, place), before))
            inserted.append(((entity.last + 1, 0, -entity.first, -place), behind))
        ordered = sorted(inserted, key=lambda each: each[0])
        places = np.repeat([each[0][0] for each in ordered], [len(each[1]) for each in ordered])
        ids = np.concatenate([each[1] for each in ordered])
        # numpy inserts before the given places, in the order given; what is not kept goes afterwards.
        stays = np.insert(kept, places, values=True)
        return MarkedText(
            tokens=Tokens(
                np.insert(tokens.ids.astype(np.int64), places, ids)[stays],
                np.insert(tokens.starts, places, 0)[stays],
                np.insert(tokens.ends, places, 0)[stays],
                np.insert(tokens.word_starts, places, values=True)[stays],
            ),
            fixed=np.insert(fixed, places, values=True)[stays],
        )


def known_label(label: str, known: Iterable[str]) -> str:
    """The label of a given entity; one that training has not seen is refused."""
    names = tuple(known)
    if label not in names:
        cause = f"unknown entity label '{label}'{did_you_mean(label, names)}"
        raise InputError(cause, fix=f"known are {', '.join(names)}")
    return label


def marker_names(kind: MarkerKind, roles: Iterable[str], labels: Sequence[str]) -> Iterable[str]:
    """All markers, in the order in which they take the unused tokens."""
    for role in roles:
        for name in [role] if kind == "text" else [f"{role}:{label}" for label in labels]:
            yield f"[{name}]"
            if kind != "type":
                yield f"[/{name}]"
