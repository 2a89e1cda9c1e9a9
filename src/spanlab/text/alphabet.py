"""The characters a vocabulary is built from, collected before it is trained.

What enters is a stream of text; what leaves is the characters that get an id of their own, in a fixed order. In a
large heap of text the rare characters (other scripts, ornaments, damage) are many: they may take half of the
vocabulary at most, the rarest going first.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from spanlab.text.words import ALONE, HAN, character_classes, code_points


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """The characters of a WordPiece vocabulary."""

    inner: tuple[str, ...]
    """Those that may stand inside a word, in order of code points."""
    left_out: str
    """Characters of the text that get no id."""

    def spelled(self, texts: Iterable[str]) -> Iterable[str]:
        """The texts with a space for each character left out."""
        if not self.left_out:
            return texts
        blanks = str.maketrans(dict.fromkeys(self.left_out, " "))
        return (text.translate(blanks) for text in texts)


def by_frequency(characters: Counter[str]) -> list[str]:
    """The most frequent first; in order of code points where the counts are the same."""
    return sorted(characters, key=lambda character: (-characters[character], character))


def collect_alphabet(texts: Iterable[str], normalizer: Any, *, room: int, split_chinese: bool) -> Alphabet:  # noqa: ANN401
    """The alphabet of the texts as `normalizer` changes them, in at most `room` ids.

    A character that may stand inside a word takes two ids, one for its place at the beginning.
    """
    written: Counter[str] = Counter()
    for text in texts:
        written.update(text)
    spelling = {character: set(normalizer.normalize_str(character)) - {" "} for character in written}
    counts: Counter[str] = Counter()
    for character, count in written.items():
        counts.update(dict.fromkeys(spelling[character], count))
    ranked = by_frequency(counts)
    inner = set(_inner(ranked, split_chinese))
    kept: set[str] = set()
    for character in ranked:
        room -= 2 if character in inner else 1
        if room < 0:
            break
        kept.add(character)
    left_out = "".join(sorted(character for character, letters in spelling.items() if not letters <= kept))
    return Alphabet(inner=tuple(sorted(inner & kept)), left_out=left_out)


def _inner(characters: list[str], split_chinese: bool) -> Iterator[str]:
    """Those that a pre-tokenizer does not make words of their own."""
    alone = {ALONE, HAN} if split_chinese else {ALONE}
    classes = character_classes(code_points("".join(characters))).tolist()
    return (character for character, its_class in zip(characters, classes, strict=True) if its_class not in alone)
