"""Is a vocabulary cased, and do the files around it agree?

The costliest silent mistake with BERT's family is a cased vocabulary behind a lower-casing tokenizer, or the other way
round: every capitalised word becomes unknown or another word, and nothing fails. The words of the vocabulary tell the
truth; settings and normalizers are checked against them.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from spanlab.errors import InputError

_LATIN_SHARE = 0.25  # a vocabulary with fewer Latin words (Chinese, Korean) proves nothing by having no capitals


def has_capitals(words: Collection[str]) -> bool:
    """Whether a vocabulary spells capital letters: more than one in a thousand of its words does.

    Names in brackets are special tokens in every system and do not count; nor do single letters, which every
    byte-level vocabulary has, nor the letters that stand for bytes in it.
    """
    byte_level = any(word.startswith("Ġ") for word in words)
    spelled = (word.lstrip("Ġ▁#") for word in words if len(word) > 1 and not word.startswith(("[", "<")))
    capitalised = sum(word != word.lower() and len(word) > 1 and (word.isascii() or not byte_level) for word in spelled)
    return capitalised * 1000 > len(words)


def lacks_capitals(words: Collection[str]) -> bool:
    """Whether a vocabulary of Latin script spells no capital letters."""
    latin = sum(sum("a" <= character <= "z" for character in word) > 1 for word in words)
    return latin > _LATIN_SHARE * len(words) and not has_capitals(words)


def check_folder_case(folder: Path, words: Collection[str], lower_cases: bool, settings: Mapping[str, Any]) -> None:
    """Refuse a tokenizer folder whose vocabulary, normalizer and settings do not agree about capitals."""
    told = settings.get("do_lower_case")
    if told is not None and bool(told) != lower_cases:
        raise InputError(
            f"tokenizer_config.json says do_lower_case {str(told).lower()}, but the tokenizer "
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
