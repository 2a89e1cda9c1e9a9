"""Entity markers: tokens that mark the two entities of a text whose relation is classified.

Input: the tokens of a text and a pair of its entities. Output: the same text with the pair marked:

- `text`: `[E1] Anna [/E1]` around the words, for entities of any type;
- `type`: `[E1:PER]` instead of the words, as SpanBERT was fine-tuned on TACRED: names cannot be memorised;
- `both`: `[E1:PER] Anna [/E1:PER]` around the words.

Markers are unused tokens of the vocabulary, if it has enough of them, as BERT's does; otherwise they are spelled out in
ordinary tokens, which works with any tokenizer. No embedding is added.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from spanlab.arrays import Flags, Integers
from spanlab.tasks.relation.config import MarkerKind
from spanlab.tasks.relation.method import check_entity_label
from spanlab.text import Tokenizer
from spanlab.text.tokens import Tokens

TokenRange = tuple[int, int]
"""First and last token of an entity, both inclusive."""
_UNUSED = re.compile(r"[\[<]unused_?\d+[\]>]")


class EntityMarkers:
    """The markers of a set of entity labels in a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, kind: MarkerKind, roles: tuple[str, str], labels: Sequence[str]) -> None:
        """`roles` are the names of the first and the second of a pair."""
        self.kind, self.labels = kind, tuple(labels)
        names = list(_marker_names(kind, roles, labels))
        unused = [id for id, token in enumerate(tokenizer.vocabulary) if _UNUSED.fullmatch(token)]
        if len(unused) >= len(names):
            ids = [np.array([id], np.int64) for id in unused[: len(names)]]
        else:
            ids = [tokens.ids.astype(np.int64) for tokens in tokenizer.encode_batch(names)]
        self._ids = dict(zip(names, ids, strict=True))
        self._roles = roles

    def added_tokens(self, labels: Sequence[str]) -> int:
        """How many tokens the markers of a pair add."""
        return sum(len(ids) for role, label in enumerate(labels) for ids in self._marker_ids(role, label))

    def mark(
        self, tokens: Tokens, pair: Sequence[TokenRange], labels: Sequence[str], is_entity_N: Flags
    ) -> tuple[Tokens, Flags]:
        """The text with both entities marked, and which of its tokens are markers or entities, of the pair or not.

        The markers of the outer of two nested entities lie outside. The character offsets of markers are 0.
        """
        inserted = []
        kept = np.ones(len(tokens), bool)
        for role, ((first, last), label) in enumerate(zip(pair, labels, strict=True)):
            opening, closing = self._marker_ids(role, label)
            if self.kind == "type":
                kept[first : last + 1] = False
            inserted.append(((first, 1, -last, role), opening))
            inserted.append(((last + 1, 0, -first, -role), closing))
        inserted.sort(key=lambda insertion: insertion[0])
        positions = np.repeat([order[0] for order, _ in inserted], [len(ids) for _, ids in inserted])
        marker_ids = np.concatenate([ids for _, ids in inserted])
        # numpy inserts before the given positions, in the order given; tokens that are not kept go afterwards.
        stays = np.insert(kept, positions, values=True)
        marked = Tokens(
            np.insert(tokens.ids.astype(np.int64), positions, marker_ids)[stays],
            np.insert(tokens.starts, positions, 0)[stays],
            np.insert(tokens.ends, positions, 0)[stays],
            np.insert(tokens.word_starts, positions, values=True)[stays],
        )
        return marked, np.insert(is_entity_N, positions, values=True)[stays]

    def _marker_ids(self, role: int, label: str) -> tuple[Integers, Integers]:
        """The ids before and after the first (0) or the second (1) of a pair; `type` has none after it."""
        name = self._roles[role]
        if self.kind != "text":
            check_entity_label(label, self.labels)
            name = f"{name}:{label}"
        return self._ids[f"[{name}]"], self._ids.get(f"[/{name}]", np.zeros(0, np.int64))


def _marker_names(kind: MarkerKind, roles: Iterable[str], labels: Sequence[str]) -> Iterable[str]:
    """All markers, in the order in which they take the unused tokens."""
    for role in roles:
        for name in [role] if kind == "text" else [f"{role}:{label}" for label in labels]:
            yield f"[{name}]"
            if kind != "type":
                yield f"[/{name}]"
