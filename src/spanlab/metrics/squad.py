"""Question answering: exact match and F1 by the official rules of SQuAD, CMRC 2018 and KorQuAD.

What enters is the gold answers of each question (none: it has no answer) and the predicted text ("" for none); what
leaves is percentages. A prediction is compared with each gold answer and keeps its best score; with no answer, only ""
is correct. The `language` selects the rules:

- `en`, SQuAD: lower case, no ASCII punctuation, no articles, single spaces; F1 over words.
- `zh`, CMRC 2018: lower case, without that script's list of punctuation; F1 over the longest common run of units, each
  Chinese character one, and between them the words of other scripts. The official script splits those with NLTK; the
  rule here differs in English contractions and the like.
- `ko`, KorQuAD 1.0: quotes, angle brackets and parentheses become spaces, lower case, no ASCII punctuation, single
  spaces; F1 over characters, spaces aside.

Answers that are empty once normalised are handled as in SQuAD 2.0 throughout; the scripts of SQuAD 1.1, CMRC and
KorQuAD differ for such answers only.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spanlab.errors import InputError, did_you_mean
from spanlab.metrics.precision_recall import check_paired, harmonic_mean, percent

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WITHOUT_CMRC_PUNCTUATION = str.maketrans("", "", r"-:_*^/\~`+=，。：？！“”；’《》·、「」（）－～『』")
_KORQUAD_SYMBOLS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
_HAN_OR_MARK = r"""\u4e00-\u9fa5;@#$%&?!()\[\]{}<>"—"""
_LAST_STOP = r"""\.(?=[\])}>"'» ]*(?:[\u4e00-\u9fa5]|$))"""
# A unit is a Chinese character, a mark, a comma outside a number, the full stop that ends a run, or else a whole word.
_CMRC_UNITS = re.compile(rf"[{_HAN_OR_MARK}]|,(?!\d)|{_LAST_STOP}|(?:(?!,(?!\d)|{_LAST_STOP})[^\s{_HAN_OR_MARK}])+")


@dataclass(frozen=True, kw_only=True)
class _Rules:
    normalise: Callable[[str], str]
    units: Callable[[str], list[str]]
    """The units of a normalised text that F1 counts."""
    common: Callable[[list[str], list[str]], int]
    """The number of units that two texts have in common."""


@dataclass(frozen=True, kw_only=True)
class AnswerScores:
    """One question's scores, in percent."""

    exact_match: float
    f1: float


_MISSING = AnswerScores(exact_match=0.0, f1=0.0)


@dataclass(frozen=True, kw_only=True)
class NoAnswerThreshold:
    """A question whose score difference is above `threshold` gets no answer; `f1` is the result."""

    threshold: float
    f1: float


def score_answers(
    gold: Sequence[Sequence[str]], predicted: Sequence[str | None], *, language: str = "en"
) -> dict[str, float]:
    """`exact_match` and `f1` over all questions, and of those with and without an answer, where there are any.

    The latter are `has_answer_exact_match`, `has_answer_f1`, `no_answer_exact_match` and `no_answer_f1`.
    None is a missing prediction: it scores 0, as in SQuAD's script, with or without gold answers.
    """
    check_paired(gold, predicted, "answers")
    scored = [
        (bool(answers), _MISSING if text is None else answer_scores(answers, text, language=language))
        for answers, text in zip(gold, predicted, strict=True)
    ]
    metrics = _means([scores for _, scores in scored])
    for answerable, prefix in ((True, "has_answer_"), (False, "no_answer_")):
        metrics |= _means([scores for has_answer, scores in scored if has_answer is answerable], prefix)
    return metrics


def answer_scores(gold: Sequence[str], predicted: str, *, language: str = "en") -> AnswerScores:
    """The best scores of a predicted text over a question's gold answers."""
    rules = _rules(language)
    text = rules.normalise(predicted)
    # A gold answer of punctuation alone would match an empty prediction: it counts as no answer.
    answers = [answer for answer in map(rules.normalise, gold) if answer] or [""]
    f1 = max(_overlap_f1(answer, text, rules) for answer in answers)
    return AnswerScores(exact_match=percent(text in answers, 1), f1=f1)


def normalise_answer(text: str, *, language: str = "en") -> str:
    """The text as exact match compares it."""
    return _rules(language).normalise(text)


def best_no_answer_threshold(
    gold: Sequence[Sequence[str]], predicted: Sequence[str], differences: Sequence[float], *, language: str = "en"
) -> NoAnswerThreshold:
    """The threshold with the highest F1, the lowest of those if several have it.

    `predicted` is the best answer that is not empty, `differences` the score of "no answer" minus its score. As in the
    official search every difference is tried. Unlike there, equal differences are taken together, and when it is best
    to answer nothing the threshold lies just below all differences instead of at 0; so the F1 is always what the
    threshold gives.
    """
    check_paired(gold, predicted, "answers")
    check_paired(gold, differences, "answers")
    if not np.isfinite(differences).all():
        raise InputError("a score difference is not finite", fix="give finite numbers")
    unanswered = np.array([answer_scores(answers, "", language=language).f1 for answers in gold])
    answered = [
        answer_scores(answers, text, language=language).f1 for answers, text in zip(gold, predicted, strict=True)
    ]
    order = np.argsort(differences, kind="stable")
    sorted_differences = np.asarray(differences, dtype=np.float64)[order]
    totals = unanswered.sum() + np.cumsum((np.array(answered) - unanswered)[order])
    last_of_equals = np.flatnonzero(np.diff(sorted_differences, append=np.inf))
    best = last_of_equals[np.argmax(totals[last_of_equals])]
    if unanswered.sum() >= totals[best]:
        below_all = float(np.nextafter(sorted_differences[0], -np.inf))
        return NoAnswerThreshold(threshold=below_all, f1=float(unanswered.mean()))
    return NoAnswerThreshold(threshold=float(sorted_differences[best]), f1=float(totals[best] / len(gold)))


def _means(scores: Sequence[AnswerScores], prefix: str = "") -> dict[str, float]:
    if not scores:
        return {}
    return {
        f"{prefix}exact_match": sum(score.exact_match for score in scores) / len(scores),
        f"{prefix}f1": sum(score.f1 for score in scores) / len(scores),
    }


def _overlap_f1(gold: str, predicted: str, rules: _Rules) -> float:
    gold_units, units = rules.units(gold), rules.units(predicted)
    if not gold_units or not units:
        return percent(gold_units == units, 1)
    common = rules.common(gold_units, units)
    return harmonic_mean(percent(common, len(units)), percent(common, len(gold_units)))


def _normalise_english(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def _normalise_chinese(text: str) -> str:
    return text.lower().strip().translate(_WITHOUT_CMRC_PUNCTUATION)


def _normalise_korean(text: str) -> str:
    return " ".join(text.translate(_KORQUAD_SYMBOLS).lower().translate(_WITHOUT_PUNCTUATION).split())


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]


def _shared(gold: list[str], predicted: list[str]) -> int:
    return (Counter(gold) & Counter(predicted)).total()


def _longest_common_run(gold: list[str], predicted: list[str]) -> int:
    """The length of the longest run of units that occurs in both."""
    longest = 0
    before = [0] * (len(predicted) + 1)
    for unit in gold:
        row = [0] + [before[index] + 1 if unit == other else 0 for index, other in enumerate(predicted)]
        longest = max(longest, *row)
        before = row
    return longest


_RULES = {
    "en": _Rules(normalise=_normalise_english, units=str.split, common=_shared),
    "zh": _Rules(normalise=_normalise_chinese, units=_CMRC_UNITS.findall, common=_longest_common_run),
    "ko": _Rules(normalise=_normalise_korean, units=_characters, common=_shared),
}


def _rules(language: str) -> _Rules:
    if language not in _RULES:
        raise InputError(
            f"no rules for answers in '{language}'{did_you_mean(language, _RULES)}", fix="use en, zh or ko"
        )
    return _RULES[language]
