"""Baselines that do not read the passage, on the almanac's questions: `python -m benchmarks.almanac_baselines`.

Each baseline is scored on the test split with SQuAD's exact match and F1, by language and together: two that see
only the question and know the training questions, one that never answers, and, where there are capitals, two that take
capitalised words from the passage. Also measured: how well a naive Bayes classifier predicts from the words of a
question whether it has an answer. Ends in one line `RESULT {json}`.
"""

import json
import math
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spanlab.samples import Passage, Question, load

CAPITALISED = re.compile(r"[A-Z][\w'-]*(?: [A-Z][\w'-]*)*")
ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = string.punctuation + "。，、！？：；“”‘’《》「」（）…·"
LANGUAGES = {"en": ("en",), "zh": ("zh",), "ko": ("ko",), "all": ("en", "zh", "ko")}


@dataclass(frozen=True)
class Asked:
    """A question with the passage it is about."""

    passage: Passage
    question: Question


Baseline = Callable[[Asked], str]


def tokens(text: str, language: str) -> list[str]:
    """SQuAD's normalisation in English; characters in Chinese and Korean, where words do not end at spaces."""
    text = "".join(character for character in text.lower() if character not in PUNCTUATION)
    if language == "en":
        return ARTICLES.sub(" ", text).split()
    return [character for character in text if not character.isspace()]


def f1(predicted: Sequence[str], wanted: Sequence[str]) -> float:
    """The F1 of two bags of tokens; two empty ones agree."""
    if not predicted or not wanted:
        return float(predicted == wanted)
    shared = sum((Counter(predicted) & Counter(wanted)).values())
    return 2 * shared / (len(predicted) + len(wanted))


def judge(asked: Asked, answer: str) -> tuple[float, float]:
    """Exact match and F1 with the best of the acceptable answers; the empty string where there is none."""
    language = asked.passage.language
    predicted = tokens(answer, language)
    wanted = [tokens(gold.text, language) for gold in asked.question.answers] or [[]]
    return max(float(predicted == gold) for gold in wanted), max(f1(predicted, gold) for gold in wanted)


def score(baseline: Baseline, questions: Sequence[Asked]) -> dict[str, float]:
    """Exact match and F1 in percent, F1 also for the questions with an answer and for those without."""
    judged = [(asked, *judge(asked, baseline(asked))) for asked in questions]
    groups = {
        "exact_match": [exact for _, exact, _ in judged],
        "f1": [f1_ for _, _, f1_ in judged],
        "has_answer_f1": [f1_ for asked, _, f1_ in judged if asked.question.answers],
        "no_answer_f1": [f1_ for asked, _, f1_ in judged if not asked.question.answers],
    }
    return {name: round(100 * sum(values) / max(1, len(values)), 1) for name, values in groups.items()}


def first_answer(question: Question) -> str:
    """The first acceptable answer, or nothing."""
    return question.answers[0].text if question.answers else ""


def nearest_question(train: Sequence[Asked]) -> Baseline:
    """Sees the question: gives the answer of the training question that shares most of its rare words."""
    bags = [(asked, _words(asked)) for asked in train]
    frequency = Counter(word for _, bag in bags for word in bag)

    def weight(words: Iterable[str]) -> float:
        return sum(math.log(len(bags) / frequency[word]) for word in words)

    def answer(asked: Asked) -> str:
        known = {word for word in _words(asked) if word in frequency}
        same = [(other, bag) for other, bag in bags if other.passage.language == asked.passage.language]
        nearest, _ = max(same, key=lambda item: weight(known & item[1]) / (1 + weight(item[1])))
        return first_answer(nearest.question)

    return answer


def question_type(train: Sequence[Asked]) -> Baseline:
    """Sees the question: gives the most common training answer to questions of its type.

    The type is the first two words that both training and question have, else the first, else the language.
    """

    def kinds(asked: Asked) -> list[tuple[str, ...]]:
        language = asked.passage.language
        words = tokens(asked.question.text, language)
        # Chinese and Korean ask at the end of the sentence.
        asking = tuple(words[:2]) if language == "en" else tuple(words[-2:][::-1])
        return [(language, *asking), (language, *asking[:1]), (language,)]

    answers: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for asked in train:
        for kind in kinds(asked):
            # Nothing is always the commonest answer, and "no answer" has a baseline of its own.
            if asked.question.answers:
                answers[kind][first_answer(asked.question)] += 1

    def answer(asked: Asked) -> str:
        kind = next(kind for kind in kinds(asked) if answers[kind])
        return answers[kind].most_common(1)[0][0]

    return answer


def longest(spans: Sequence[str]) -> str:
    """The longest of some strings, the first among equals."""
    return max(spans, key=len, default="")


def longest_capitalised(asked: Asked) -> str:
    """Sees the passage: gives its longest run of capitalised words."""
    return longest(CAPITALISED.findall(asked.passage.text))


def capitalised_nearby(asked: Asked) -> str:
    """Sees both: the longest run of capitalised words, not in the question, of the sentence most like the question."""
    passage, language = asked.passage, asked.passage.language
    words = _words(asked)
    sentences = [passage.span(sentence) for sentence in passage.sentences]
    likest = max(sentences, key=lambda sentence: len(words & set(tokens(sentence, language))))
    return longest([run for run in CAPITALISED.findall(likest) if run not in asked.question.text])


def _words(asked: Asked) -> frozenset[str]:
    return frozenset(tokens(asked.question.text, asked.passage.language))


def answerability(train: Sequence[Asked], test: Sequence[Asked]) -> dict[str, float]:
    """Whether the words of a question give away that it has no answer: naive Bayes against the majority class."""
    asked_words = [(bool(asked.question.answers), _words(asked)) for asked in train]
    sizes = Counter(has_answer for has_answer, _ in asked_words)
    counts = Counter((has_answer, word) for has_answer, words in asked_words for word in words)
    vocabulary = {word for _, words in asked_words for word in words}

    def leaning(asked: Asked) -> float:
        words = _words(asked)
        odds = math.log(sizes[True] / sizes[False])
        for word in vocabulary:
            share = {label: (counts[label, word] + 0.5) / (sizes[label] + 1) for label in (True, False)}
            odds += math.log(share[True] / share[False] if word in words else (1 - share[True]) / (1 - share[False]))
        return odds

    leanings = [(leaning(asked), bool(asked.question.answers)) for asked in test]
    answered = [odds for odds, has_answer in leanings if has_answer]
    unanswered = [odds for odds, has_answer in leanings if not has_answer]
    ordered = sum((a > b) + (a == b) / 2 for a in answered for b in unanswered)
    right = sum((odds > 0) == has_answer for odds, has_answer in leanings)
    return {
        "accuracy": round(100 * right / len(test), 1),
        "majority": round(100 * max(len(answered), len(unanswered)) / len(test), 1),
        "auc": round(ordered / (len(answered) * len(unanswered)), 3),
    }


def main() -> None:
    """Score every baseline and print the table, then the result line."""
    questions = [(p.split, Asked(p, question)) for p in load() for question in p.questions]
    train = [asked for split, asked in questions if split == "train"]
    test = [asked for split, asked in questions if split == "test"]
    everywhere = {
        "no answer": lambda _: "",
        "nearest question": nearest_question(train),
        "question type": question_type(train),
    }
    english = {"longest capitalised": longest_capitalised, "capitalised nearby": capitalised_nearby}
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for name, baseline in {**everywhere, **english}.items():
        groups = LANGUAGES if name in everywhere else {"en": ("en",)}
        scores[name] = {
            group: score(baseline, [asked for asked in test if asked.passage.language in languages])
            for group, languages in groups.items()
        }
        for group, values in scores[name].items():
            print(f"{name:20} {group:4}", *(f"{metric} {value:5.1f}" for metric, value in values.items()))
    told = answerability(train, test)
    print("answerable or not, from the question's words:", told)
    print("RESULT", json.dumps({"questions": len(test), "scores": scores, "answerability": told}))


if __name__ == "__main__":
    main()
