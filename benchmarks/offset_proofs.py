"""Offsets verified by comparing strings, on every example: those of tokens, entities and answers.

Three statements, each counted over all examples: every token known to the vocabulary spells the characters it points
at; every entity survives the round trip through tags; every answer does the same, but for those that begin or end
inside a token, whose tokens must contain it. Case, width and marks are ignored for tokens, which tokenizers normalise,
and space at the edges for answers, which no token contains; nothing else is.
"""

import unicodedata
from collections.abc import Sequence
from itertools import groupby, zip_longest
from typing import Any

import numpy as np

from spanlab.tasks.ner.data import NerExample
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.qa.data import QaExample, QaResult
from spanlab.tasks.qa.task import QuestionAnswering
from spanlab.tasks.sample import Sample
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer


def tokens_spell_their_characters(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, int]:
    """Over all tokens of the texts: how many there are, are unknown, and do not spell what they point at."""
    counts = {"tokens": 0, "unknown": 0, "wrong": 0}
    for text, tokens in zip(texts, tokenizer.encode_batch(texts), strict=True):
        counts["tokens"] += len(tokens)
        places = zip(tokens.starts.tolist(), tokens.ends.tolist(), tokens.ids.tolist(), strict=True)
        # Tokens smaller than a character, such as the letters of a Korean syllable, share its offsets.
        groups = [
            (place, [number for *_, number in group]) for place, group in groupby(places, key=lambda one: one[:2])
        ]
        following = [start for (start, _), _ in groups[1:]]
        for ((start, end), numbers), after in zip_longest(groups, following):
            spelled = "".join(tokenizer.vocabulary[number].removeprefix("##").replace("▁", "") for number in numbers)
            if tokenizer.unk_id in numbers:
                counts["unknown"] += len(numbers)
            elif not spelled:  # the mark of a word that is cut from its first piece: it points at where that begins
                counts["wrong"] += start != after
            else:
                counts["wrong"] += _plain(spelled) != _plain(text[start:end])
    return counts


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(character for character in decomposed if unicodedata.category(character)[0] not in "MCZ")


def entities_come_back(task: NamedEntities, examples: Sequence[NerExample], windower: Windower) -> dict[str, int]:
    """Entities into tags and back by the task's own encoding and decoding: how many, and how many are not the same."""
    counts = {"entities": 0, "wrong": 0}
    samples = _by_example(task.encode(examples, windower, labelled=True), len(examples))
    for number, example in enumerate(examples):
        sure = [np.eye(len(task.fitted.labels), dtype=np.float32)[one.targets["tags"]] * 9 for one in samples[number]]
        found = task.decode(number, example, samples[number], sure)
        wanted = {(example.text[span.start : span.end], span.start, span.label) for span in example.spans}
        counts["entities"] += len(wanted)
        counts["wrong"] += len(wanted ^ {(span.text, span.start, span.label) for span in found.spans})
    return counts


def answers_come_back(task: QuestionAnswering, examples: Sequence[QaExample], windower: Windower) -> dict[str, int]:
    """The first answer of every example into tokens and back, in every window that holds it whole."""
    counts = {"answers": 0, "inside_a_token": 0, "in_no_window": 0, "wrong": 0}
    samples = _by_example(task.encode(examples, windower, labelled=True), len(examples))
    for example, own in zip(examples, samples, strict=True):
        if not example.answers:
            continue
        counts["answers"] += 1
        wanted, context = example.answers[0].text.strip(), example.contexts[0]
        found = {context[start:end] for start, end in map(_target_characters, own) if end}
        if not found:
            counts["in_no_window"] += 1
        elif found != {wanted}:
            counts["inside_a_token" if all(wanted in one for one in found) else "wrong"] += 1
    return counts


def _target_characters(sample: Sample) -> tuple[int, int]:
    """Where the target of a window lies in its document; 0 and 0 if the answer is not in it."""
    first, last, null, begin = (
        int(values[name][0])
        for values, name in (
            (sample.targets, "first"),
            (sample.targets, "last"),
            (sample.features, "null"),
            (sample.features, "begin"),
        )
    )
    if first == null:
        return 0, 0
    return int(sample.features["starts"][first - begin]), int(sample.features["ends"][last - begin])


def results_stand_in_their_text(results: Sequence[Any]) -> dict[str, int]:
    """What was predicted, answers or entities: how many, and how many are not the characters they point at."""
    counts = {"predicted": 0, "wrong": 0}
    for result in results:
        if isinstance(result, QaResult):
            told = [
                (result.contexts[one.document], one.answer, one) for one in result.nbest if one.document is not None
            ]
        else:
            told = [(result.source, span.text, span) for span in getattr(result, "spans", ())]
        counts["predicted"] += len(told)
        counts["wrong"] += sum(text[one.start : one.end] != said for text, said, one in told)
    return counts


def _by_example(samples: Sequence[Sample], count: int) -> list[list[Sample]]:
    grouped: list[list[Sample]] = [[] for _ in range(count)]
    for sample in samples:
        grouped[sample.example].append(sample)
    return grouped
