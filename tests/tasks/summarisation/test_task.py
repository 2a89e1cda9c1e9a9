"""Summaries: sentences found again at their characters, windows brought together, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spanlab.errors import ConfigError, InputError
from spanlab.inference.load import load
from spanlab.tasks.checking import check_file
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.formats.row import Row
from spanlab.tasks.head import Encoded
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.summarisation.config import SummarisationConfig
from spanlab.tasks.summarisation.data import SummaryResult
from spanlab.tasks.summarisation.heads import sentence_vectors
from spanlab.tasks.summarisation.task import Summarisation
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.text.windows import best_windows
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_here
from tests.tasks.making import BPE, TOKENIZER, decode_all, predict, read, run_head, tiny_encoder, train_head, windower

SENTENCES = [
    "The ferry left the island before dawn.",
    "Nobody on the quay waved, because nobody was awake.",
    "The café on the promenade opened at eight.",
    "Mr. Brown ordered his naïve little breakfast.",
    "At last the fog lifted!",
]
TEXT = " ".join(SENTENCES)
ROWS: list[dict[str, Any]] = [
    {"sentences": SENTENCES, "labels": [0, 1, 0, 0, 1]},
    {"sentences": SENTENCES[::-1], "labels": [1, 0, 0, 1, 0]},
    {"text": TEXT, "summary": "Nobody on the quay waved. The fog lifted at last."},
]


def fit(rows: list[dict[str, Any]], **changes: Any) -> tuple[Summarisation, list[Any]]:
    examples = read(Summarisation, rows)
    return Summarisation.fit(SummarisationConfig(**changes), examples), examples


def oracle(sample: Sample) -> Any:
    """What a head that knows the targets would say."""
    return (sample.targets["labels"] * 8 - 4).astype(np.float32)


@pytest.mark.parametrize("vector", ["mean", "marker"])
@pytest.mark.parametrize("tokenizer", [TOKENIZER, BPE], ids=["wordpiece", "bpe"])
@pytest.mark.parametrize("length", [12, 24, 128])
def test_what_is_encoded_is_decoded(vector: str, tokenizer: Tokenizer, length: int) -> None:
    task, examples = fit(ROWS, sentence_vector=vector)
    assert task.config.limit == 2.0
    samples = task.encode(examples, windower(length, 5, tokenizer), labelled=True)
    results = decode_all(task, examples, samples, [oracle(sample) for sample in samples])
    for result, wanted in zip(results, ([1, 4], [0, 3], [1, 4]), strict=True):
        assert [sentence.index for sentence in result.sentences] == wanted
        assert (result.windows > 1) == (length < 128)
        parts = [result.text[sentence.start : sentence.end] for sentence in result.sentences]
        assert " ".join(parts) == result.summary
        assert all(part in SENTENCES for part in parts)
    metrics = task.score(examples[:2], results[:2]).metrics
    assert metrics["rouge1"] == metrics["rougeL"] == metrics["oracle_rouge1"] == pytest.approx(100.0)
    assert metrics["lead_rouge1"] < 100


def hidden_by_number(samples: list[Sample]) -> Encoded:
    """An encoder that says of every token only where it lies."""
    batch = pack_samples(SampleBatch(task="summarisation", samples=tuple(samples)))
    count = len(batch.input_ids_N)
    return Encoded(hidden_ND=torch.arange(float(count)).unsqueeze(1), pooled_BD=None, batch=batch)


@pytest.mark.parametrize("length", [12, 20, 128])
def test_a_sentence_is_the_mean_of_its_tokens_where_they_see_most(length: int) -> None:
    task, examples = fit(ROWS)
    frame = windower(length, 5)
    samples = task.encode(examples, frame, labelled=False)
    found = sentence_vectors(hidden_by_number(samples)).squeeze(1).tolist()
    wanted, begin = [], 0
    for example, sample in zip(examples, samples, strict=True):
        tokens = frame.tokenize([example.text])[0]
        windows = frame.single(tokens)
        best = best_windows([window.first for window in windows], len(tokens))
        for start, end in example.spans:
            places = []
            for number in range(len(tokens)):
                if start <= tokens.starts[number] and tokens.ends[number] <= end:
                    window = windows[best[number]]
                    before = sum(len(each.sequence) for each in windows[: best[number]])
                    places.append(begin + before + window.first_start + number - window.first.start)
            wanted.append(sum(places) / len(places))
        begin += sample.tokens
    assert found == pytest.approx(wanted)


def test_markers_are_laid_out_as_in_bertsum() -> None:
    task, examples = fit(ROWS[:1], sentence_vector="marker")
    (sample,) = task.encode(examples, windower(), labelled=True)
    pieces = [TOKENIZER.vocabulary[i] for i in sample.sequences[0].ids]
    assert [pieces[place] for place in sample.features["positions"]] == ["[CLS]"] * 5
    assert pieces.count("[CLS]") == pieces.count("[SEP]") == 5
    assert pieces[0] == "[CLS]"
    assert pieces[-1] == "[SEP]"
    assert sample.sequences[0].segments is not None
    segments = sample.sequences[0].segments[sample.features["positions"]]
    assert segments.tolist() == [0, 1, 0, 1, 0]
    for place in sample.features["positions"][1:]:
        assert pieces[place - 1] == "[SEP]"
        assert sample.sequences[0].segments[place - 1] != sample.sequences[0].segments[place]


def random_model(task: Summarisation, seed: int = 1) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    encoder = tiny_encoder().eval()
    head = task.head(encoder).eval()
    torch.nn.init.normal_(head.score.weight, std=3.0)
    return encoder, head


@pytest.mark.parametrize("vector", ["mean", "marker"])
def test_documents_do_not_see_each_other(vector: str) -> None:
    task, examples = fit(ROWS, sentence_vector=vector)
    encoder, head = random_model(task)
    samples = task.encode(examples, windower(20, 6), labelled=False)
    together = run_head(task, encoder, head, samples, batch_tokens=100_000)
    alone = run_head(task, encoder, head, samples, batch_tokens=10)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    swapped = run_head(task, encoder, head, samples[::-1], batch_tokens=100_000)[::-1]
    for one, other in zip(together, swapped, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("layers", [0, 2])
def test_sentences_of_all_windows_see_each_other(layers: int) -> None:
    """The last sentence lies in no window with the first; only the layers between sentences can tell of it."""
    other = {"sentences": [*SENTENCES[:-1], "She laughed."], "labels": [0] * 5}
    task, examples = fit([ROWS[0], other], inter_layers=layers)
    encoder, head = random_model(task)
    samples = task.encode(examples, windower(16, 14), labelled=False)
    one, two = run_head(task, encoder, head, samples, batch_tokens=100_000)
    assert len(samples[0].sequences) > 3
    assert (abs(one[0] - two[0]) > 1e-4) == (layers > 0)


@pytest.mark.parametrize("vector", ["mean", "marker"])
def test_it_learns(vector: str) -> None:
    task, examples = fit(ROWS, sentence_vector=vector)
    encoder, head = train_head(task, examples, windower(40, 20), steps=40)
    results = predict(task, encoder, head, examples, windower(40, 20))
    indices = [[sentence.index for sentence in result.sentences] for result in results]
    assert indices == [[1, 4], [0, 3], [1, 4]]
    assert all(sentence.score > 0.5 for result in results for sentence in result.sentences)


def test_the_loss_is_that_of_every_sentence() -> None:
    task, examples = fit(ROWS)
    head = task.head(tiny_encoder())
    batch = pack_samples(
        SampleBatch(task="summarisation", samples=tuple(task.encode(examples, windower(), labelled=True)))
    )
    logits = torch.linspace(-2, 2, 15)
    loss = head.loss(logits, batch)
    labels = [0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    wanted = sum(-np.log(1 / (1 + np.exp(-x if y else x))) for x, y in zip(logits.tolist(), labels, strict=True))
    assert loss.total.item() == pytest.approx(wanted, rel=1e-5)
    assert loss.count == head.count(batch.batch) == 15


def test_what_is_cut_off_is_not_chosen() -> None:
    task, examples = fit(ROWS[:1], limit=5)
    frame = Windower(TOKENIZER, length=20, long_text="truncate", segments=2)
    samples = task.encode(examples, frame, labelled=True)
    (result,) = decode_all(task, examples, samples, [oracle(sample) for sample in samples])
    assert result.truncated
    assert [sentence.index for sentence in result.sentences] == [0, 1]


def test_a_row_may_bring_its_own_limit() -> None:
    rows = [
        {"text": TEXT, "limit": 1},
        {"text": TEXT, "limit": 0.45, "limit_by": "ratio"},
        {"text": TEXT, "limit": 14, "limit_by": "words"},
    ]
    task, _ = fit(ROWS)
    examples = read(Summarisation, rows, labelled=False)
    samples = task.encode(examples, windower(), labelled=False)
    results = decode_all(task, examples, samples, [np.array([1.0, 2.0, 3.0, 4.0, 5.0])] * 3)
    assert [[sentence.index for sentence in result.sentences] for result in results] == [[4], [3, 4], [3, 4]]
    with pytest.raises(InputError, match="'limit_by' is 'pages'; use one of sentences, words, ratio"):
        read(Summarisation, [{"text": TEXT, "limit": 1, "limit_by": "pages"}], labelled=False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limit": 0.0}, "'limit' is 0"),
        ({"limit_by": "words"}, "'limit' is not set"),
        ({"inter_layers": -1}, "'inter_layers' is -1"),
    ],
)
def test_settings_that_cannot_be_meant(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SummarisationConfig(**changes)


def test_a_model_without_a_first_sign_has_no_markers() -> None:
    from spanlab.text import TokenizerConfig, train_tokenizer
    from tests.text.hostile_text import HONEST

    tokenizer = train_tokenizer([HONEST], TokenizerConfig(kind="bpe", vocab_size=400, system="gpt"))
    task, examples = fit(ROWS, sentence_vector="marker")
    with pytest.raises(ConfigError, match="use sentence_vector=mean"):
        task.encode(examples, windower(128, None, tokenizer, segments=0), labelled=False)
    plain, _ = fit(ROWS)
    assert len(plain.encode(examples, windower(128, None, tokenizer, segments=0), labelled=False)) == 3


DIRTY: list[tuple[dict[str, Any], str | None]] = [
    (ROWS[0], None),
    ({"sentences": [], "labels": []}, "no sentence"),
    ({"sentences": ["  "], "labels": [0]}, "no sentence"),
    ({"sentences": SENTENCES[:3], "labels": [0, 1]}, "wrong number of labels"),
    ({"sentences": SENTENCES[1:3], "labels": [0, 2]}, "wrong label"),
    ({"sentences": SENTENCES[2:3], "labels": "1"}, "wrong type"),
    ({"sentences": ["A.", 3], "labels": [0, 1]}, "wrong type"),
    ({"text": "A fog. A river.", "labels": [0, 1]}, "labels without sentences"),
    ({"text": " ", "summary": "A fog."}, "empty text"),
    ({"text": "A fog lifted."}, "missing field"),
    ({"text": "A fog.", "summary": ""}, "empty text"),
    ({"summary": "A fog."}, "missing field"),
    ({"text": "Two fogs.", "summary": []}, "empty text"),
    ({"sentences": ["A.", ""], "labels": [1, 0]}, "blank sentence"),
    ({"sentences": ["B.", "C."], "labels": [0, 0]}, "no sentence labelled 1"),
    ({"text": "Three fogs.", "summary": "Fogs.", "limit": "long"}, "wrong limit"),
]


def test_every_problem_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "dirty.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row, _ in DIRTY), encoding="utf-8")
    report = check_file(Summarisation, str(file), TaskDataConfig())
    found = {finding.line: finding.kind for finding in report.findings}
    assert found == {line: kind for line, (_, kind) in enumerate(DIRTY, 1) if kind is not None}
    serious = {finding.line for finding in report.findings if finding.serious}
    warnings = {"blank sentence", "no sentence labelled 1"}
    assert {line for line, (_, kind) in enumerate(DIRTY, 1) if kind in warnings} == set(found) - serious
    with pytest.raises(InputError, match=r"x:4: 2 labels for 3 sentences"):
        Summarisation.read(Row(values=DIRTY[3][0], path="x", line=4), labelled=True)


def test_the_same_document_twice_is_told_in_any_shape(tmp_path: Path) -> None:
    file = tmp_path / "twice.jsonl"
    rows = [ROWS[0], {"sentences": ["Another."], "labels": [1]}, {"source": SENTENCES, "target": ["Fog."]}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    report = check_file(Summarisation, str(file), TaskDataConfig())
    assert [(finding.line, finding.kind) for finding in report.findings] == [(3, "duplicate input")]
    assert report.longest == len(TEXT.split())


def test_blank_sentences_go_with_their_labels() -> None:
    (example,) = read(Summarisation, [{"sentences": ["A fog.", " ", "A river. "], "labels": [0, 0, 1]}])
    assert (example.text, example.labels, example.references) == ("A fog. A river.", (0, 1), ("A river.",))
    (chinese,) = read(Summarisation, [{"sentences": ["河水上涨。", "雾散了。"], "labels": [0, 1]}])
    assert chinese.text == "河水上涨。雾散了。"
    assert chinese.sentences == ["河水上涨。", "雾散了。"]


def test_scitldr_as_it_comes(real_data: Path) -> None:
    lines = (real_data / "summarisation/scitldr/dev.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    examples = read(Summarisation, rows)
    for row, example in zip(rows, examples, strict=True):
        assert example.id == row["paper_id"]
        assert example.sentences == [sentence.strip() for sentence in row["source"]]
        assert list(example.labels) == row["source_labels"]
        assert list(example.references) == row["target"]
    task = Summarisation.fit(SummarisationConfig(), examples)
    assert task.config.limit == 1.0
    chosen = [SummaryResult(id="", sentences=(), summary=example.sentences[0]) for example in examples[:50]]
    metrics = task.score(examples[:50], chosen).metrics
    for name in ("rouge1", "rouge2", "rougeL"):
        assert metrics[name] == pytest.approx(metrics[f"lead_{name}"])
        assert metrics[f"oracle_{name}"] > metrics[name] + 10


def test_from_file_to_folder_and_back(tiny_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "summaries.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    records: list[Record] = []
    training = {"epochs": 60.0, "lr": 3e-4, "batch_size": 4, "eval_every": 30, "precision": "fp32", "device": "cpu"}
    out = tmp_path / "run"
    finetune(
        "summarisation", model=tiny_model, train=file, dev=file, out=out, on_record=records.append, training=training
    )
    best = max((dict(record.metrics) for record in records if record.split == "dev"), key=lambda one: one["rouge1"])
    assert best["rouge1"] > best["lead_rouge1"]
    model = load(out, precision="fp32")
    assert model.evaluate(str(file)).metrics == pytest.approx(best)
    (result,) = model.predict(TEXT)
    assert set(result.to_dict()) == {"id", "windows", "truncated", "sentences", "summary"}
    assert set(result.to_dict()["sentences"][0]) == {"start", "end", "score", "index"}
    assert "summary" in result.to_html()
    card = (out / "model" / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: summarization" in card
    assert "lead_rouge1" in card
    assert "lead" in (out / "report.html").read_text(encoding="utf-8")
    predicted = tmp_path / "predicted.jsonl"
    assert run_here("predict", str(out), "--input", str(file), "--output", str(predicted)).returncode == 0
    scored = run_here("score", "summarisation", "--gold", str(file), "--predicted", str(predicted), "--json")
    assert json.loads(scored.stdout)["metrics"] == pytest.approx(best)


def test_a_foreign_summary_must_be_text() -> None:
    task, examples = fit(ROWS)
    assert task.read_result(Row(values={"summary": "Fog."}), 0, examples[0]).summary == "Fog."
    with pytest.raises(InputError, match="'summary' is None; it must be text"):
        task.read_result(Row(values={"text": "Fog."}), 0, examples[0])


def test_mistakes_are_summaries_unlike_the_reference() -> None:
    task, examples = fit(ROWS)
    right = task.read_result(Row(values={"summary": examples[0].references[0]}), 0, examples[0])
    assert task.mistake(examples[0], right) is None
    wrong = task.mistake(examples[0], task.read_result(Row(values={"summary": "Unlike"}), 0, examples[0]))
    assert wrong is not None
    assert (wrong.badness, wrong.predicted) == (1.0, "Unlike")
