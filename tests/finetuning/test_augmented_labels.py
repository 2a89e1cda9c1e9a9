"""What a label points to is the same text before and after augmentation, in every task, head and cutting of windows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.encoder import EncoderConfig, MaskedLMHead, Model, TransformerEncoder
from spanlab.finetuning.augmentation import refilled_copies
from spanlab.finetuning.config import resolve_config
from spanlab.tasks.config import TuningConfig
from spanlab.tasks.table import TASKS, find_task
from spanlab.text import TokenizerConfig, train_tokenizer
from spanlab.training.distributed import ProcessContext
from tests.tasks.making import read, windower

HERE = ProcessContext(device=torch.device("cpu"), precision="fp32")
PLAIN = [first + last for first in ("ba", "de", "fi", "go", "lu") for last in ("k", "m", "n", "r", "s")]
LABELLED = [first + last for first in ("qa", "qe", "vi", "vo") for last in ("x", "z", "w")]
"""Words that only labels point to: one token each, so a changed token is a changed word."""
TOKENIZER = train_tokenizer(
    [" ".join([*PLAIN, *LABELLED, ".", "?"])] * 3, TokenizerConfig(kind="wordpiece", vocab_size=300, lowercase=True)
)


@dataclass(frozen=True)
class Document:
    """Sentences of words; the labelled words are in runs, and each run is one labelled span."""

    text: str
    spans: list[tuple[int, int]]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    runs = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), min_size=2, max_size=6))
    text, spans = "", []
    for plain, labelled in runs:
        text += "".join(f"{draw(st.sampled_from(PLAIN))} " for _ in range(plain + 1))
        span = " ".join(draw(st.sampled_from(LABELLED)) for _ in range(labelled))
        spans.append((len(text), len(text) + len(span)))
        text += f"{span} . "
    return Document(text=text.rstrip(), spans=spans)


def entities(document: Document) -> list[dict[str, Any]]:
    return [{"start": start, "end": end, "label": "thing"} for start, end in document.spans]


def ner(document: Document) -> dict[str, Any]:
    return {"text": document.text, "spans": entities(document)}


def qa(document: Document) -> dict[str, Any]:
    answers = [{"text": document.text[start:end], "start": start} for start, end in document.spans]
    return {"question": "bak dem ?", "context": document.text, "answers": answers}


def coref(document: Document) -> dict[str, Any]:
    return {"text": document.text, "clusters": [[list(span) for span in document.spans]]}


def relation(document: Document) -> dict[str, Any]:
    relations = [{"head": 0, "tail": 1, "label": "near"}]
    return {"text": document.text, "entities": entities(document), "relations": relations}


def summarisation(document: Document) -> dict[str, Any]:
    sentences = [f"{part.strip()} ." for part in document.text.split(" .") if part.strip()]
    plain = [" ".join(word for word in s.split() if word not in LABELLED) for s in sentences]
    marked = [f"{PLAIN[0]} {LABELLED[index % len(LABELLED)]} ." for index in range(len(sentences))]
    chosen = [index % 2 for index in range(len(sentences))]
    return {
        "sentences": [m if c else p for m, p, c in zip(marked, plain, chosen, strict=True)],
        "labels": chosen,
    }


ROWS: dict[str, tuple[Callable[[Document], dict[str, Any]], list[dict[str, Any]]]] = {
    "ner": (ner, [{"head": "tag"}, {"head": "span"}]),
    "qa": (qa, [{"head": "pointers"}, {"head": "span"}]),
    "coref": (coref, [{"segments": "independent"}, {"segments": "overlap"}]),
    "relation": (relation, [{"head": "markers", "markers": "text"}, {"head": "pairs"}, {"head": "joint"}]),
    "summarisation": (summarisation, [{"sentence_vector": "mean"}, {"sentence_vector": "marker"}]),
}
WHOLE_TEXT = {"classification", "similarity", "generation"}
"""Tasks whose label points to no part of the text; generation has no MLM head, and its targets are tested elsewhere."""


def test_every_task_is_here() -> None:
    assert set(ROWS) | WHOLE_TEXT == set(TASKS)


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    config = EncoderConfig(
        width=16, layers=1, heads=2, inner_width=16, vocab_size=TOKENIZER.vocab_size, max_positions=64, init_std=0.3
    )
    encoder = TransformerEncoder(config)
    return Model(encoder=encoder, heads={"mlm": MaskedLMHead(config)})


@pytest.mark.parametrize(("name", "changes"), [(name, c) for name, (_, settings) in ROWS.items() for c in settings])
@given(document=documents(), length=st.integers(16, 48))
@settings(max_examples=15, deadline=None)
def test_labelled_words_stay(name: str, changes: dict[str, Any], model: Model, document: Document, length: int) -> None:
    task_class = find_task(name)
    (example,) = read(task_class, [ROWS[name][0](document)])
    task = task_class.fit(resolve_config(name, changes), [example])
    if changes.get("head") == "markers":  # a pair must fit into one window, or it is left out
        length = 64
    samples = task.encode([example], windower(length, tokenizer=TOKENIZER), labelled=True)
    tuning = TuningConfig(augment=2, augment_share=0.99)
    copies = refilled_copies(samples, model, TOKENIZER, tuning, seed=1, batch_tokens=500, process=HERE)
    labelled_ids = {int(tokens.ids[0]) for tokens in TOKENIZER.encode_batch(LABELLED)}
    for copy, sample in zip(copies, samples * 2, strict=True):
        for array in sample.features:
            np.testing.assert_array_equal(copy.features[array], sample.features[array])
        for array in sample.targets:
            np.testing.assert_array_equal(copy.targets[array], sample.targets[array])
        for new, old in zip(copy.sequences, sample.sequences, strict=True):
            pointed = np.isin(old.ids, list(labelled_ids))
            assert len(new) == len(old)
            np.testing.assert_array_equal(new.ids[pointed], old.ids[pointed])
    changed = [
        (new.ids != old.ids).any()
        for copy, sample in zip(copies, samples * 2, strict=True)
        for new, old in zip(copy.sequences, sample.sequences, strict=True)
    ]
    assert any(changed)  # plain words do change
