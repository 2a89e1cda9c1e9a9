"""Whose rules a task's texts are scored by, told from their script."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Literal


def script_language(texts: Iterable[str]) -> Literal["en", "zh", "ko"]:
    """Whose rules fit texts: Chinese or Korean ones if a third of their letters are, else English ones."""
    scripts = Counter(
        unicodedata.name(character, "").split(" ")[0] for text in texts for character in text if character.isalpha()
    )
    letters = max(1, scripts.total())
    if scripts["HANGUL"] * 3 >= letters:
        return "ko"
    return "zh" if scripts["CJK"] * 3 >= letters else "en"
