"""Classification: labels, losses equal to torch's and transformers', windows, thresholds, scores."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from spanlab.encoder import load_model
from spanlab.errors import ConfigError, InputError
from spanlab.tasks.classification import (
    Classification,
    ClassificationConfig,
    ClassificationExample,
    ClassificationResult,
    LabelSetResult,
)
from spanlab.tasks.fitted import windower_for
from spanlab.tasks.formats.row import Row
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.text import Tokenizer


def row(**values: object) -> Row:
    return Row(values=values, path="a.jsonl", line=7)


def examples(*pairs: tuple[str, str]) -> list[ClassificationExample]:
    return [Classification.read(row(text=text, label=label), labelled=True) for text, label in pairs]


FEW = examples(("The river rose in spring.", "nature"), ("She won the race.", "sports"), ("Snow fell.", "nature"))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"label": "a"}, "missing field"),
        ({"text": "a"}, "missing field"),
        ({"text": 3, "label": "a"}, "wrong type"),
        ({"text": " \n", "label": "a"}, "empty text"),
        ({"text": "a", "label": 0.5}, "wrong type"),
        ({"text": "a", "label": True}, "wrong type"),
        ({"text": "a", "label": " "}, "empty label"),
        ({"text": "a\ud800", "label": "x"}, "encoding fault"),
        ({"text": "a", "labels": ["x", 0.5]}, "wrong type"),
    ],
)
def test_problems_of_a_row(values: dict[str, object], kind: str) -> None:
    (problem,) = Classification.problems(row(**values))
    assert problem.kind == kind
    assert problem.serious
    assert str(problem.error(row(**values))).startswith("a.jsonl:7: ")


def test_replacement_characters_are_told_and_taken() -> None:
    (problem,) = Classification.problems(row(text="caf\ufffd", label="a"))
    assert not problem.serious


def test_learning_labels() -> None:
    task = Classification.fit(ClassificationConfig(), FEW)
    assert task.fitted.labels == ("nature", "sports")
    assert task.fitted.label_counts == (2, 1)
    assert task.config.multi_label is False
    assert task.primary == "accuracy"
    with pytest.raises(InputError, match="all examples have the label 'nature'"):
        Classification.fit(ClassificationConfig(), FEW[:1])
    several = [Classification.read(row(text="a", labels=["x", 2]), labelled=True)]
    assert Classification.fit(ClassificationConfig(), several).fitted.labels == ("2", "x")
    with pytest.raises(InputError, match="multi_label=true"):
        Classification.fit(ClassificationConfig(multi_label=False), several)
    with pytest.raises(ConfigError, match="label_smoothing"):
        ClassificationConfig(label_smoothing=1.0)


def logits_and_loss(
    folder: Path, config: ClassificationConfig, few: list[ClassificationExample]
) -> tuple[Tensor, Tensor, Classification]:
    task = Classification.fit(config, few)
    encoder = load_model(folder).encoder
    head = task.head(encoder)
    samples = task.encode(few, windower_for(encoder.config, Tokenizer.load(folder), config.data), labelled=True)
    batch = pack_samples(SampleBatch(task="c", samples=tuple(samples)))
    criterion = MultiTaskNetwork(encoder, {"c": head}).eval()
    loss = criterion(batch)
    output = encoder(batch.input_ids_N, token_type_ids=batch.segment_ids_N, lengths=batch.lengths_B)
    return head.layer(output.hidden[batch.starts], output.pooled), loss.value, task


def test_losses_equal_torchs(tiny_model: Path) -> None:
    target = torch.tensor([0, 1, 0])
    logits, loss, _ = logits_and_loss(tiny_model, ClassificationConfig(), FEW)
    torch.testing.assert_close(loss, F.cross_entropy(logits, target))
    logits, loss, _ = logits_and_loss(tiny_model, ClassificationConfig(label_smoothing=0.2), FEW)
    torch.testing.assert_close(loss, F.cross_entropy(logits, target, label_smoothing=0.2))
    logits, loss, _ = logits_and_loss(tiny_model, ClassificationConfig(class_weights="balanced"), FEW)
    torch.testing.assert_close(loss, F.cross_entropy(logits, target, weight=torch.tensor([0.75, 1.5])))
    sets = [replace(example, multi_label=True) for example in FEW]
    logits, loss, _ = logits_and_loss(tiny_model, ClassificationConfig(), sets)
    torch.testing.assert_close(loss, F.binary_cross_entropy_with_logits(logits, F.one_hot(target).float()))


def test_a_batch_in_two_parts_has_the_same_gradient(tiny_model: Path) -> None:
    task = Classification.fit(ClassificationConfig(), FEW)
    encoder = load_model(tiny_model).encoder
    criterion = MultiTaskNetwork(encoder, {"c": task.head(encoder)})
    windower = windower_for(encoder.config, Tokenizer.load(tiny_model), task.config.data)
    samples = tuple(task.encode(FEW, windower, labelled=True))
    criterion(pack_samples(SampleBatch(task="c", samples=samples))).value.backward()
    whole = {name: p.grad.clone() for name, p in criterion.named_parameters() if p.grad is not None}
    criterion.zero_grad()
    for part in (samples[:1], samples[1:]):
        criterion(pack_samples(SampleBatch(task="c", samples=part)), {"c": 3}).value.backward()
    for name, parameter in criterion.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, whole[name], atol=1e-6, rtol=1e-4)


def test_windows_are_averaged() -> None:
    task = Classification.fit(ClassificationConfig(), FEW)
    windows = [np.array([2.0, 0.0]), np.array([0.0, 1.0])]
    result = task.decode(5, FEW[0], [_Window(), _Window()], windows)  # type: ignore[list-item]
    assert isinstance(result, ClassificationResult)
    assert result.id == "5"
    assert result.windows == 2
    assert result.label == "nature"
    assert result.score == pytest.approx(float(torch.tensor([1.0, 0.5]).softmax(0)[0]))
    assert list(result.to_dict())[:3] == ["id", "windows", "truncated"]
    assert "<b>nature</b>" in result.to_html()


class _Window:
    truncated = False


def test_the_threshold_is_tuned() -> None:
    few = [
        Classification.read(row(text="a", labels=["x"]), labelled=True),
        Classification.read(row(text="b", labels=["x", "y"]), labelled=True),
        Classification.read(row(text="c", labels=[]), labelled=True),
    ]
    task = Classification.fit(ClassificationConfig(), few)
    scores = np.array([[0.31, 0.1], [0.4, 0.36], [0.1, 0.21]])
    outputs = [[np.log(row / (1 - row))] for row in scores]
    tuned = task.tune(few, [[]] * 3, outputs)
    assert tuned.fitted.thresholds["labels"] in {0.25, 0.3}
    results = [tuned.decode(n, few[n], [], outputs[n]) for n in range(3)]
    assert [r.labels for r in results if isinstance(r, LabelSetResult)] == [("x",), ("x", "y"), ()]
    assert tuned.score(few, results).metrics["f1"] == 100.0


def test_scores_of_read_results() -> None:
    task = Classification.fit(ClassificationConfig(), FEW)
    predicted = [task.read_result(row(label=label), n, FEW[n]) for n, label in enumerate(["nature", "nature", "x"])]
    scores = task.score(FEW, predicted)
    assert scores.count == 3
    assert scores.metrics["accuracy"] == pytest.approx(100 / 3)
    assert set(scores.metrics) == {"accuracy", "macro_f1", "mcc"}
    with pytest.raises(InputError, match="'label' is missing"):
        task.read_result(row(text="a"), 0, FEW[0])
