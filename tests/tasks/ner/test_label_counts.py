"""What is counted on the text alone is what the tokenizer's targets hold; and the loss weighs by it."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spanlab.tasks.heads import balanced_weights
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.spans.config import SpanConfig
from spanlab.tasks.tensor_batch import pack_samples
from tests.tasks.making import read, tiny_encoder, windower
from tests.tasks.ner.test_task import NESTED, ROWS


def fit(head: str, units: str, rows: list[dict[str, Any]]) -> tuple[NamedEntities, list[Any]]:
    examples = read(NamedEntities, rows)
    config = NerConfig(head=head, units=units, span=SpanConfig(max_width=40), class_weights="balanced")  # type: ignore[arg-type]
    return NamedEntities.fit(config, examples), examples


@pytest.mark.parametrize(("head", "target"), [("tag", "tags"), ("span", "labels")])
@pytest.mark.parametrize("units", ["word", "character"])
def test_counts_are_those_of_the_targets(head: str, target: str, units: str) -> None:
    task, examples = fit(head, units, NESTED if head == "span" else ROWS)
    samples = task.encode(examples, windower(500), labelled=True)
    counted = np.bincount(np.concatenate([s.targets[target] for s in samples]), minlength=len(task.fitted.labels))
    assert task.fitted.label_counts == tuple(counted.tolist())


def test_a_character_with_marks_is_one_unit() -> None:
    row = {"text": "cafe\u0301 O", "spans": [{"start": 3, "end": 5, "label": "X"}]}
    task, _ = fit("tag", "character", [row])
    assert task.fitted.label_counts == (4, 1, 0)


@pytest.mark.parametrize("head", ["tag", "span"])
def test_rare_labels_weigh_more(head: str) -> None:
    task, examples = fit(head, "word", ROWS)
    encoder = tiny_encoder()
    module: Any = task.head(encoder)
    samples = tuple(task.encode(examples, windower(), labelled=True))
    batch = pack_samples(SampleBatch(task="ner", samples=samples))
    criterion = MultiTaskNetwork(encoder, {"ner": module})
    logits = criterion(batch, return_logits=True)
    target = batch.targets["tags" if head == "tag" else "labels"]
    weights = balanced_weights(task.fitted.label_counts)
    assert weights[0] < weights[1:].min()
    wanted = F.cross_entropy(logits, target, weight=weights, reduction="sum")
    torch.testing.assert_close(module.loss(logits, batch).total, wanted)
    assert not torch.isclose(wanted, F.cross_entropy(logits, target, reduction="sum"))


def test_a_new_span_head_starts_at_the_frequencies_of_the_labels() -> None:
    """Otherwise a short training ends before it has learned that nearly all candidates have no label."""
    examples = read(NamedEntities, NESTED)
    task = NamedEntities.fit(NerConfig(head="span"), examples)
    encoder = tiny_encoder()
    samples = tuple(task.encode(examples, windower(500), labelled=True))
    batch = pack_samples(SampleBatch(task="ner", samples=samples))
    with torch.no_grad():
        logits = MultiTaskNetwork(encoder, {"ner": task.head(encoder)})(batch, return_logits=True)
    counts = torch.tensor(task.fitted.label_counts).clamp(min=0.5)
    torch.testing.assert_close(logits.softmax(-1).mean(0), counts / counts.sum(), atol=0.02, rtol=0.2)
