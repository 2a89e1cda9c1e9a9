"""No task predicts a span that begins or ends inside a word, unless it is asked for raw spans."""

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from spanlab.finetuning.config import resolve_config
from spanlab.tasks.base import AnyTask
from spanlab.tasks.ner.decode import best_word_tags, is_valid
from spanlab.tasks.table import find_task
from tests.inference.models import shake
from tests.tasks.making import BPE, TOKENIZER, predict, read, tiny_encoder, windower

ENGLISH = "The Golden Ladle in Puebla welcomed Margaret Winterbottom, and she remembered the lighthouse keeper."
KOREAN = "김민수는 서울에서 부산으로 갔다. 그는 바다를 보았다."
CHINESE = "王小明在北京大学读书，他喜欢天安门广场。"
TEXTS = (ENGLISH, KOREAN, CHINESE)
CUT = re.compile(r"[A-Za-z]\x00[A-Za-z]")

KINDS: dict[str, dict[str, Any]] = {
    "qa pointers": {"task": "qa"},
    "qa span": {"task": "qa", "head": "span"},
    "ner tag, characters": {"task": "ner", "units": "character"},
    "ner tag, pieces": {"task": "ner", "units": "piece"},
    "ner span, characters": {"task": "ner", "head": "span", "units": "character"},
    "ner span, pieces": {"task": "ner", "head": "span", "units": "piece"},
    "coref, characters": {"task": "coref", "units": "character"},
    "coref, pieces": {"task": "coref", "units": "piece"},
    "relation, pieces": {"task": "relation", "head": "joint", "units": "piece"},
}


def labelled(task: str, text: str) -> dict[str, Any]:
    """A row whose spans are whole words, or parts of Korean and Chinese ones."""
    first, second = {ENGLISH: ((4, 16), (36, 57)), KOREAN: ((0, 3), (5, 7)), CHINESE: ((0, 3), (4, 8))}[text]
    entities = [{"start": start, "end": end, "label": "X"} for start, end in (first, second)]
    return {
        "qa": {"question": "Who?", "context": text, "answers": [{"text": text[slice(*first)], "start": first[0]}]},
        "ner": {"text": text, "spans": entities},
        "coref": {"text": text, "clusters": [[list(first), list(second)]]},
        "relation": {"text": text, "entities": entities, "relations": [{"head": 0, "tail": 1, "label": "R"}]},
    }[task]


def spans_of(result: Any) -> list[tuple[int, int]]:
    """All spans that a result shows."""
    if hasattr(result, "nbest"):
        return [(answer.start, answer.end) for answer in result.nbest if answer.start is not None]
    if hasattr(result, "mentions"):
        return [(mention.start, mention.end) for mention in result.mentions]
    return [(span.start, span.end) for span in (result.entities if hasattr(result, "entities") else result.spans)]


def predicted(kind: str, **changes: Any) -> list[list[tuple[int, int]]]:
    """The spans of a task with random weights, for each of the texts; several models, so that there are many."""
    settings = {**KINDS[kind], **changes}
    task_class = find_task(settings.pop("task"))
    examples = read(task_class, [labelled(task_class.name, text) for text in TEXTS])
    task: AnyTask = task_class.fit(resolve_config(task_class.name, settings), examples)
    found: list[list[tuple[int, int]]] = [[] for _ in TEXTS]
    for seed in range(4):
        tokenizer, system = (BPE, "roberta") if seed % 2 else (TOKENIZER, "bert")
        torch.manual_seed(seed)
        encoder = tiny_encoder(tokenizer, system).eval()
        head = task.head(encoder).eval()
        shake(head, seed)
        for name, weight in head.named_parameters():
            if name.endswith("bias"):  # new heads start with a prior of predicting nothing
                torch.nn.init.zeros_(weight)
        frame = windower(100, None, tokenizer, segments=encoder.config.segments)
        for index, result in enumerate(predict(task, encoder, head, examples, frame)):
            found[index] += spans_of(result)
    return found


def cut_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Those that begin or end between two Latin letters."""
    return [
        text[start:end]
        for start, end in spans
        if any(CUT.search(f"{text[:edge][-1:]}\x00{text[edge:][:1]}") for edge in (start, end))
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_words_by_default_and_raw_spans_by_choice(kind: str) -> None:
    by_default, raw = predicted(kind), predicted(kind, whole_words=False)
    assert [len(spans) > 3 for spans in by_default] == [True, True, True]
    assert cut_spans(ENGLISH, by_default[0]) == []
    assert len(cut_spans(ENGLISH, raw[0])) > 3
    assert by_default[1:] == raw[1:], "Korean and Chinese spans begin and end anywhere"


@pytest.mark.parametrize("task", ["qa", "ner", "coref", "relation"])
@pytest.mark.parametrize("whole", [True, False])
def test_the_training_data_decide(task: str, whole: bool) -> None:
    task_class = find_task(task)
    text = "Donaudampfschiff und Rheindampfer fuhren."
    first, second = ((0, 16), (21, 33)) if whole else ((0, 5), (21, 26))
    entities = [{"start": start, "end": end, "label": "X"} for start, end in (first, second)]
    rows = {
        "qa": {"question": "Was?", "context": text, "answers": [{"text": text[slice(*first)], "start": first[0]}]},
        "ner": {"text": text, "spans": entities},
        "coref": {"text": text, "clusters": [[list(first), list(second)]]},
        "relation": {"text": text, "entities": entities, "relations": [{"head": 0, "tail": 1, "label": "R"}]},
    }
    fitted = task_class.fit(resolve_config(task, {}), read(task_class, [rows[task]]))
    assert fitted.config.whole_words is whole
    assert task_class.fit(
        resolve_config(task, {"whole_words": True}), read(task_class, [rows[task]])
    ).config.whole_words


def test_a_word_in_an_entity_is_whole_or_not_at_all() -> None:
    """Against every valid sequence of tags of three words of two units."""
    generator = np.random.default_rng(0)
    begins_inside = np.array([False, True] * 3)
    sequences = [
        np.array(tags)
        for tags in product(range(5), repeat=6)
        if is_valid(np.array(tags), np.array([6]))[0]
        and all(tags[1 + 2 * word] == tags[2 * word] + tags[2 * word] % 2 for word in range(3))
    ]
    for _ in range(20):
        scores = generator.normal(size=(6, 5))
        best = max(sequences, key=lambda tags: scores[np.arange(6), tags].sum())
        assert best_word_tags(scores, begins_inside).tolist() == best.tolist()
