"""Sentence boundaries of English, Chinese and Korean text, by rule.

What enters is a text; what leaves is character spans. One regular expression finds every mark that may end a
sentence, and cheap rules about the characters around it decide. On edited text that is as good as dedicated libraries,
and fast enough for corpus preparation: `docs/explanation/sentences.md` has the measurements.
"""

import re

from spanlab.errors import ConfigError

_LANGUAGES = ("en", "zh", "ko")

_CLOSING = "\"'”’»)\\]}」』）】》〉*_"
_OPENING = "\"'“‘«([{「『（【《〈*_-—–"

# A mark with closing quotes and brackets and the space after it; or an empty line. Only the first of several marks is
# tried, so that a million full stops in a row are scanned once.
_WESTERN = re.compile(rf"[.!?…\n](?:(?<=\n)[^\S\n]*\n|(?<=[.!?…])(?<![.!?…][.!?…])[.!?…]*+[{_CLOSING}]*+\s+)")
# The marks of Chinese and Japanese need no space after them; nor do "." "!" "?" between two Han or Hangul characters.
_EASTERN = re.compile(
    rf"[.!?…\n。！？｡](?:(?<=\n)[^\S\n]*\n|(?<!\n)(?<![.!?…。！？｡][.!?…。！？｡])[.!?…。！？｡]*[{_CLOSING}]*"
    rf"(?:\s+|(?<=[。！？｡{_CLOSING}])|(?=[{_OPENING}]*[\u3400-\u9fff\uac00-\ud7a3])))"
)
_EASTERN_LETTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_WORD_EDGE = re.compile(r"[\s\"'’“‘«(\[{—–/-]")
_ALWAYS = "\n。！？｡"
_CONTINUING = frozenset(",;:)%&")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Never the end of a sentence: a name, a number or an example follows.
_TITLES = _set("""
    mr mrs ms dr prof st mt gen col maj capt cpt lt sgt cmdr adm gov sen rep rev hon pres supt messrs mme mlle mons fr
    fig figs eq eqs sec no nos vol pp ch vs v e.g i.e cf al viz approx ca resp
""")
# The end of a sentence only before a word that often begins one.
_MAYBE = _set("""
    etc inc ltd co corp bros jr sr a.m p.m u.s u.k u.n ph.d b.c a.d d.c est dept univ
    jan feb mar apr jun jul aug sep sept oct nov dec
""")
_BEGINNERS = _set("""
    The A An In On At It He She We They I You This That These Those There Then But And So If When While As After Before
    For From To By With His Her Their Our My Its What Who Why How Where However Although Not No Yes Some All
""")


def sentence_spans(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """The sentences of a text: character spans in order, without overlap, every non-blank character inside one.

    `language` is "en", "zh" or "ko"; None detects it by the script. An empty line always ends a sentence; a single line
    break never does.
    """
    if language not in (None, *_LANGUAGES):
        raise ConfigError(f"no sentence rules for the language '{language}'", fix="use en, zh or ko")
    eastern = language in {"zh", "ko"} or (language is None and not text.isascii() and _EASTERN_LETTER.search(text))
    marks = (_EASTERN if eastern else _WESTERN).finditer(text)
    return _spans_between(text, [match.end() for match in marks if _ends_sentence(text, *match.span())])


def _spans_between(text: str, cuts: list[int]) -> list[tuple[int, int]]:
    """The spans between cuts, stripped of space; empty ones are left out."""
    spans, first = [], 0
    for cut in (*cuts, len(text)):
        last = cut
        while last > first and text[last - 1].isspace():
            last -= 1
        while first < last and text[first].isspace():
            first += 1
        if first < last:
            spans.append((first, last))
        first = cut
    return spans


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Whether the mark at `start`, with closing quotes and space up to `end`, ends a sentence."""
    mark, following = text[start], text[end : end + 1]
    if mark in _ALWAYS:
        return True
    if not following.isupper():
        if text.count("\n", start, end) > 1:
            return True
        following = text[end : end + 8].lstrip(_OPENING)[:1]
        if following.islower() or following in _CONTINUING:
            return False
    if mark != "." or text[start + 1] == ".":
        return True
    before = text[max(0, start - 7) : start]
    long_word = len(before) == 7 and before.isalpha()
    return long_word or _full_stop_ends(before, text[end : end + 24])


def _full_stop_ends(before: str, following: str) -> bool:
    """Whether a single full stop ends a sentence: not after a title, an initial or an abbreviation."""
    word = _WORD_EDGE.split(before)[-1]
    lower = word.lower()
    if lower in _TITLES:
        return False
    initial = len(word) == 1 and word.isupper()
    if lower in _MAYBE or initial or ("." in word and not word[0].isdigit()):
        return _WORD_EDGE.split(following.lstrip(_OPENING), maxsplit=1)[0].rstrip(",") in _BEGINNERS
    return True
