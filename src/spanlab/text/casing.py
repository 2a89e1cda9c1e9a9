"""Whether a vocabulary is cased, and whether the settings around it agree.

A cased vocabulary with a lower-casing tokenizer, or the reverse, fails silently: every capitalised word becomes unknown
or another word. The vocabulary decides; settings and normalizers are checked against it.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from spanlab.errors import InputError

_MIN_ALPHABET = 4  # the letters of DNA; fewer capital letters are symbols
_SMALL_PER_LARGE = (
    4  # in BERT's cased vocabulary two small letters for a large one; in uncased ones there are no large ones
)
_LATIN_SHARE = 0.25  # with fewer Latin words (Chinese, Korean), the absence of capitals means nothing


def has_capitals(words: Collection[str]) -> bool:
    """Whether a vocabulary is cased: by its words, or by an alphabet of single letters.

    More than one in a thousand of its words has a capital letter, or there are some capital letters for every few small
    ones, as in a small cased vocabulary, and in a protein's, which consists of nothing but capital letters. Special
    tokens (names in brackets) do not count, nor do letters that stand for bytes, which every byte-level vocabulary has.
    """
    byte_level = any(word.startswith("Ġ") for word in words)
    stripped = [word.lstrip("Ġ▁#") for word in words if not word.startswith(("[", "<"))]
    capitalised = sum(
        word != word.lower() and len(word) > 1 and (word.isascii() or not byte_level) for word in stripped
    )
    if capitalised * 1000 > len(words):
        return True
    letters = {word for word in stripped if len(word) == 1} if not byte_level else set()
    large, small = (sum(letter != other(letter) for letter in letters) for other in (str.lower, str.upper))
    return large >= _MIN_ALPHABET and large * _SMALL_PER_LARGE >= small


def lacks_capitals(words: Collection[str]) -> bool:
    """Whether a vocabulary of Latin script is uncased."""
    latin = sum(sum("a" <= character <= "z" for character in word) > 1 for word in words)
    return latin > _LATIN_SHARE * len(words) and not has_capitals(words)


def check_folder_case(folder: Path, words: Collection[str], lower_cases: bool, settings: Mapping[str, Any]) -> None:
    """Raise where the vocabulary, normalizer and settings of a tokenizer folder disagree about case."""
    setting = settings.get("do_lower_case")
    if setting is not None and bool(setting) != lower_cases:
        raise InputError(
            f"tokenizer_config.json says do_lower_case {str(setting).lower()}, but the tokenizer "
            f"{'lower-cases' if lower_cases else 'keeps capitals'}",
            path=folder,
            fix="make the two agree with the model's vocabulary",
        )
    if lower_cases and has_capitals(words):
        raise InputError(
            "the vocabulary is cased, but its tokenizer lower-cases: no capital would ever be found",
            path=folder,
            fix="set do_lower_case to false in tokenizer_config.json and lowercase to false in tokenizer.json",
        )
    if not lower_cases and lacks_capitals(words):
        raise InputError(
            "the vocabulary is uncased, but its tokenizer keeps capitals: every capital would be unknown",
            path=folder,
            fix="set do_lower_case to true in tokenizer_config.json and lowercase to true in tokenizer.json",
        )
