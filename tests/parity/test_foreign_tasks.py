"""Folders that transformers fine-tuned for entities and answers load here, and find what transformers' logits say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spanlab
from spanlab.errors import InputError
from tests.tiny_model import write_tiny_model

hf = pytest.importorskip("transformers")

TEXT = "The river rose again near Anna's old house in Paris, and nobody waved from the quay."
QUESTION = "Who waved from the quay?"
CLASSES = {
    "bert": ("BertForTokenClassification", "BertForQuestionAnswering"),
    "electra": ("ElectraForTokenClassification", "ElectraForQuestionAnswering"),
}


def write_foreign(folder: Path, tiny: Path, kind: str, **settings: Any) -> tuple[Any, Any]:
    """A random model of transformers' own class, saved by transformers, and its tokenizer."""
    tokenizer = hf.AutoTokenizer.from_pretrained(tiny)
    model_class = getattr(hf, kind)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    if kind.startswith("Electra"):
        shape["embedding_size"] = 32
    torch.manual_seed(1)
    config = model_class.config_class(
        vocab_size=len(tokenizer), max_position_embeddings=128, initializer_range=0.2, **shape, **settings
    )
    model = model_class(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def word_logits(model: Any, tokenizer: Any) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Their logits at the first piece of each word, and the words' characters."""
    given = tokenizer(TEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, words = given.pop("offset_mapping")[0].tolist(), given.word_ids(0)
    with torch.no_grad():
        logits = model(**given).logits[0].numpy()
    firsts = [n for n, word in enumerate(words) if word is not None and words[n - 1] != word]
    ends = [max(offsets[n][1] for n in range(len(words)) if words[n] == words[first]) for first in firsts]
    return logits[firsts], [(offsets[first][0], end) for first, end in zip(firsts, ends, strict=True)]


def runs_of(labels: list[str], words: list[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """Spans of valid BIO tags."""
    spans: list[tuple[int, int, str]] = []
    for label, (start, end) in zip(labels, words, strict=True):
        if label.startswith("I-"):
            spans[-1] = (spans[-1][0], end, label[2:])
        elif label.startswith("B-"):
            spans.append((start, end, label[2:]))
    return spans


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("system", list(CLASSES))
def test_entities_in_another_order_of_tags(system: str, tiny: Path, tmp_path: Path) -> None:
    names = ["I-PER", "O", "B-LOC", "B-PER", "I-LOC"]
    settings = {"id2label": dict(enumerate(names)), "num_labels": 5}
    theirs, tokenizer = write_foreign(tmp_path, tiny, CLASSES[system][0], **settings)
    model = spanlab.load(tmp_path, precision="fp32")
    assert model.tasks == ("ner",)
    assert model.labels() == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    logits, words = word_logits(theirs, tokenizer)
    ours = logits[:, [names.index(tag) for tag in model.labels()]]
    found = model.predict(TEXT)[0].spans
    wanted = runs_of([model.labels()[tag] for tag in best_valid(ours)], words)
    assert wanted
    assert [(span.start, span.end, span.label) for span in found] == wanted
    assert all(span.text == TEXT[span.start : span.end] for span in found)


def best_valid(scores: np.ndarray) -> list[int]:
    """The best valid tags, by looking at all ways to come to a tag."""
    best = [(float(score), [tag]) if tag % 2 or tag == 0 else (-np.inf, [tag]) for tag, score in enumerate(scores[0])]
    for row in scores[1:]:
        ways = [[one for one in best if tag == 0 or tag % 2 or one[1][-1] in {tag, tag - 1}] for tag in range(len(row))]
        best = [
            (chosen[0] + float(row[tag]), [*chosen[1], tag])
            for tag, chosen in enumerate(max(each, key=lambda one: one[0]) for each in ways)
        ]
    return max(best, key=lambda one: one[0])[1]


@pytest.mark.parametrize("names", [["PER", "LOC", "O"], ["I-LOC", "I-PER", "O"]])
def test_labels_without_a_beginning(names: list[str], tiny: Path, tmp_path: Path) -> None:
    settings = {"id2label": dict(enumerate(names)), "num_labels": 3}
    theirs, tokenizer = write_foreign(tmp_path, tiny, CLASSES["bert"][0], **settings)
    logits, words = word_logits(theirs, tokenizer)
    labels = [names[n].removeprefix("I-") for n in logits.argmax(axis=1)]
    wanted: list[tuple[int, int, str]] = []
    for number, (label, (start, end)) in enumerate(zip(labels, words, strict=True)):
        if label != "O" and number and labels[number - 1] == label:
            wanted[-1] = (wanted[-1][0], end, label)
        elif label != "O":
            wanted.append((start, end, label))
    found = spanlab.load(tmp_path, precision="fp32").predict(TEXT)[0].spans
    assert len(wanted) > 1
    assert [(span.start, span.end, span.label) for span in found] == wanted


@pytest.mark.parametrize("names", [["NOUN", "VERB", "DET"], ["O", "B-PER", "E-PER"], ["O", "B-LOC", "I-PER"]])
def test_tags_that_mean_something_else_are_refused(names: list[str], tiny: Path, tmp_path: Path) -> None:
    write_foreign(tmp_path, tiny, CLASSES["bert"][0], id2label=dict(enumerate(names)), num_labels=3)
    with pytest.raises(InputError, match="neither BIO nor IO") as caught:
        spanlab.load(tmp_path)
    assert str(caught.value.path).endswith("config.json")


@pytest.mark.parametrize("system", list(CLASSES))
def test_answers(system: str, tiny: Path, tmp_path: Path) -> None:
    theirs, tokenizer = write_foreign(tmp_path, tiny, CLASSES[system][1])
    model = spanlab.load(tmp_path, precision="fp32")
    assert model.tasks == ("qa",)
    given = tokenizer(QUESTION, TEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, parts = given.pop("offset_mapping")[0].tolist(), given.sequence_ids(0)
    with torch.no_grad():
        said = theirs(**given)
    start, end = said.start_logits[0].tolist(), said.end_logits[0].tolist()
    context = [place for place, part in enumerate(parts) if part == 1]
    pairs = [(a, b) for a in context for b in context if a <= b < a + 30]
    first, last = max(pairs, key=lambda pair: start[pair[0]] + end[pair[1]])
    found = model.predict((QUESTION, TEXT))[0]
    assert (found.start, found.end) == (offsets[first][0], offsets[last][1])
    assert found.answer == TEXT[found.start : found.end]
    assert not found.no_answer
