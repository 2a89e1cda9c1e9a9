"""Similarity: scores, labels, two towers and their cosine."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from spanlab.encoder import Encoder, load_model
from spanlab.errors import InputError
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.fitted import windower_for
from spanlab.tasks.formats.row import Row
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.predict import compute_outputs, embed_texts
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.similarity import PairLabelResult, Similarity, SimilarityConfig, SimilarityExample, SimilarityResult
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.text import Tokenizer
from spanlab.training.distributed import ProcessContext

HERE = ProcessContext(device=torch.device("cpu"), precision="fp32")


def pair(a: str, b: str, **label: object) -> SimilarityExample:
    row = Row(values={"text_a": a, "text_b": b, **label})
    assert not list(Similarity.problems(row))
    return Similarity.read(row, labelled=True)


SCORED = [pair("The river rose.", "It rose.", score="4.5"), pair("Snow fell on the hills.", "She won.", score=1)]
LABELLED = [pair("a river", "a stream", label="same"), pair("a river", "a chair", label="different")]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"text_a": "a", "score": 1}, "missing field"),
        ({"text_a": "a", "text_b": "b"}, "missing field"),
        ({"text_a": "a", "text_b": "b", "score": "high"}, "wrong type"),
        ({"text_a": "a", "text_b": "b", "score": float("nan")}, "wrong type"),
        ({"text_a": "a", "text_b": "", "label": "x"}, "empty text"),
    ],
)
def test_problems_of_a_row(values: dict[str, object], kind: str) -> None:
    (problem,) = Similarity.problems(Row(values=values))
    assert problem.kind == kind


def test_what_cannot_be_learnt_together() -> None:
    config = SimilarityConfig()
    with pytest.raises(InputError, match="give one of the two"):
        Similarity.fit(config, [*SCORED, *LABELLED])
    with pytest.raises(InputError, match="head=cross"):
        Similarity.fit(SimilarityConfig(head="bi"), LABELLED)
    with pytest.raises(InputError, match="score_range"):
        Similarity.fit(SimilarityConfig(score_range=(0.0, 1.0)), SCORED)
    assert Similarity.fit(config, LABELLED).fitted.labels == ("different", "same")
    assert Similarity.fit(config, SCORED).primary == "spearman"


@pytest.fixture(scope="module")
def parts(tiny_model: Path) -> tuple[Encoder, Tokenizer]:
    return load_model(tiny_model).encoder.eval(), Tokenizer.load(tiny_model)


def test_the_squared_loss_of_a_cross_encoder(parts: tuple[Encoder, Tokenizer]) -> None:
    encoder, tokenizer = parts
    task = Similarity.fit(SimilarityConfig(), SCORED)
    head = task.head(encoder)
    samples = task.encode(SCORED, windower_for(encoder.config, tokenizer, task.config.data), labelled=True)
    criterion = MultiTaskNetwork(encoder, {"s": head}).eval()
    loss = criterion(pack_samples(SampleBatch(task="s", samples=tuple(samples)))).value
    outputs = compute_outputs(criterion, {"s": samples}, batch_tokens=100, process=HERE)["s"]
    scores = torch.tensor(np.concatenate(outputs))
    torch.testing.assert_close(loss, F.mse_loss(scores, torch.tensor([4.5, 1.0])))
    result = task.decode(0, SCORED[0], samples[:1], outputs[:1])
    assert isinstance(result, SimilarityResult)
    assert result.score == pytest.approx(scores[0].item(), abs=1e-6)


@pytest.mark.parametrize("words", [3, 200])
def test_the_towers_cosine_is_that_of_the_embeddings(parts: tuple[Encoder, Tokenizer], words: int) -> None:
    encoder, tokenizer = parts
    config = SimilarityConfig(head="bi", data=TaskDataConfig(length=32))
    windower = windower_for(encoder.config, tokenizer, config.data)
    few = [pair("the river rose " * words, "snow fell", score=5), pair("she won", "the race " * words, score=0)]
    task = Similarity.fit(config, few)
    samples = task.encode(few, windower, labelled=True)
    assert len(samples) == 2
    cosines = compute_outputs(
        MultiTaskNetwork(encoder, {"s": task.head(encoder)}), {"s": samples}, batch_tokens=64, process=HERE
    )["s"]
    texts = [text for example in few for text in (example.text_a, example.text_b)]
    vectors = embed_texts(encoder, windower, texts, batch_tokens=64, process=HERE)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    wanted = [vectors[0] @ vectors[1], vectors[2] @ vectors[3]]
    assert cosines == pytest.approx(wanted, abs=1e-5)
    result = task.decode(0, few[0], samples[:1], cosines[:1])
    assert isinstance(result, SimilarityResult)
    assert result.score == pytest.approx(5 * wanted[0], abs=1e-4)
    assert (result.windows > 1) == (words > 100)


def test_labels_of_pairs(parts: tuple[Encoder, Tokenizer]) -> None:
    encoder, tokenizer = parts
    task = Similarity.fit(SimilarityConfig(class_weights="balanced"), LABELLED)
    samples = task.encode(LABELLED, windower_for(encoder.config, tokenizer, task.config.data), labelled=True)
    outputs = compute_outputs(
        MultiTaskNetwork(encoder, {"s": task.head(encoder)}), {"s": samples}, batch_tokens=100, process=HERE
    )["s"]
    results = [task.decode(n, LABELLED[n], samples[n : n + 1], outputs[n : n + 1]) for n in range(2)]
    assert all(isinstance(result, PairLabelResult) for result in results)
    scores = task.score(LABELLED, results)
    assert set(scores.metrics) == {"accuracy", "macro_f1", "mcc"}
    row = Row(values={"label": "same"})
    assert task.score(LABELLED, [task.read_result(row, n, LABELLED[n]) for n in range(2)]).metrics["accuracy"] == 50.0


def test_minilm_gives_the_vectors_of_sentence_transformers(minilm: Path) -> None:
    """As published: the mean over all tokens, [CLS] and [SEP] included, of length one."""
    hf = pytest.importorskip("transformers")
    texts = ["A man is eating food.", "Jemand isst.", "The girl is carrying a baby, and a dog barks at both of them."]
    tokenizer, model = hf.AutoTokenizer.from_pretrained(minilm), hf.AutoModel.from_pretrained(minilm).eval()
    given = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**given).last_hidden_state
    mask = given["attention_mask"].unsqueeze(-1)
    wanted = F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    encoder = load_model(minilm).encoder.eval()
    windower = windower_for(encoder.config, Tokenizer.load(minilm), TaskDataConfig())
    found = embed_texts(encoder, windower, texts, batch_tokens=1000, process=HERE)
    torch.testing.assert_close(torch.from_numpy(found), wanted, atol=1e-5, rtol=0)
