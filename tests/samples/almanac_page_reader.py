"""Reads a page of the almanac back: the bare text of each card, its nested mentions, its answers and lists."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "input"}


@dataclass
class Card:
    """What one card of the page says."""

    text: str = ""
    mentions: list[tuple[int, int, str | None, str | None]] = field(default_factory=list)
    answers: dict[str, set[int]] = field(default_factory=dict)
    key_sentences: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)


class PageReader(HTMLParser):
    """Fills `cards`, by the id of the passage; elements that are not closed in order are an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cards: dict[str, Card] = {}
        self.tags: set[str] = set()
        self._open: list[tuple[str, dict[str, str | None], int]] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        attributes = dict(attrs)
        if tag == "article":
            self.cards[attributes["id"] or ""] = Card()
        card = next(reversed(self.cards.values()), Card())
        if tag not in VOID:
            self._open.append((tag, attributes, len(card.text)))
        lists = {"questions": card.questions, "relations": card.relations, "pairs": card.pairs}
        for name, items in lists.items():
            if tag == "li" and self._inside(name):
                items.append("")

    def _inside(self, name: str) -> bool:
        return any(name in (attributes.get("class") or "").split() for _, attributes, _ in self._open)

    def handle_endtag(self, tag: str) -> None:
        opened, attributes, start = self._open.pop()
        assert opened == tag
        if not self._inside("text"):
            return
        card = next(reversed(self.cards.values()))
        classes = (attributes.get("class") or "").split()
        if "mention" in classes:
            entry = start, len(card.text), attributes.get("data-type"), attributes.get("data-entity")
            card.mentions.append(entry)
        if "key" in classes:
            card.key_sentences.append(card.text[start:])
        for number in (attributes.get("data-answers") or "").split():
            card.answers.setdefault(number, set()).update(range(start, len(card.text)))

    def handle_data(self, data: str) -> None:
        if not self.cards:
            return
        card = next(reversed(self.cards.values()))
        if self._inside("text"):
            card.text += data
        for name, items in (("questions", card.questions), ("relations", card.relations), ("pairs", card.pairs)):
            if self._inside(name) and items:
                items[-1] += data
