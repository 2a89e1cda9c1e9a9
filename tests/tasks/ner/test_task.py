"""Entities: from file to spans and back, in windows as in one piece, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.ner.config import NerConfig
from spanlab.tasks.ner.data import Entity, redact
from spanlab.tasks.ner.decode import best_tags, tags_to_spans
from spanlab.tasks.ner.span_classification import SpanLabels
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.config import SpanConfig
from spanlab.text import Tokenizer
from spanlab.text.windows import best_windows
from tests.tasks.making import BPE, TOKENIZER, decode_all, predict, read, tiny_encoder, train_head, windower

TEXT = "Anna met Captain O'Neill on the island before dawn. Mr. Brown ordered coffee in the café."
ROWS: list[dict[str, Any]] = [
    {
        "text": TEXT,
        "spans": [
            {"start": 0, "end": 4, "label": "PER"},
            {"start": 17, "end": 24, "label": "PER"},
            {"start": 28, "end": 38, "label": "LOC"},
            {"start": 52, "end": 61, "label": "PER"},
            {"start": 80, "end": 88, "label": "LOC"},
        ],
    },
    {"text": "Nobody on the quay waved.", "spans": [{"start": 10, "end": 18, "label": "LOC"}]},
    {"text": "It was a warning.", "spans": []},
]
NESTED = [*ROWS, {"text": TEXT, "spans": [*ROWS[0]["spans"], {"start": 9, "end": 38, "label": "PER"}]}]


def fit(rows: list[dict[str, Any]], **changes: Any) -> tuple[NamedEntities, list[Any]]:
    examples = read(NamedEntities, rows)
    return NamedEntities.fit(NerConfig(span=SpanConfig(max_width=10), **changes), examples), examples


def oracle(task: NamedEntities, sample: Sample) -> Any:
    """What a head that knows the targets would say."""
    if task.config.head == "span":
        labels = sample.targets["labels"].astype(np.int64)
        return SpanLabels(labels=labels, scores=np.linspace(0.5, 1.0, len(labels), dtype=np.float32))
    return np.eye(len(task.fitted.labels), dtype=np.float32)[sample.targets["tags"]] * 9


@pytest.mark.parametrize("head", ["tag", "span"])
@pytest.mark.parametrize("units", ["word", "piece", "character"])
@pytest.mark.parametrize("tokenizer", [TOKENIZER, BPE], ids=["wordpiece", "bpe"])
@pytest.mark.parametrize("length", [20, 24, 128])
def test_what_is_encoded_is_decoded(head: str, units: str, tokenizer: Tokenizer, length: int) -> None:
    width = 60 if units != "word" else 10
    config = NerConfig(head=head, units=units, span=SpanConfig(max_width=width))  # type: ignore[arg-type]
    examples = read(NamedEntities, ROWS)
    task = NamedEntities.fit(config, examples)
    # Spans are whole in some window if windows share at least a span's tokens.
    frame = windower(length, 2, tokenizer) if length < 128 else windower(400, None, tokenizer)
    samples = task.encode(examples, frame, labelled=True)
    results = decode_all(task, examples, samples, [oracle(task, sample) for sample in samples])
    for example, result in zip(examples, results, strict=True):
        found = [(span.start, span.end, span.label) for span in result.spans]
        assert found == [(span.start, span.end, span.label) for span in example.spans]
        assert all(span.text == example.text[span.start : span.end] for span in result.spans)
    assert results[0].windows > 1 or length == 128
    assert task.score(examples, results).metrics["f1"] == 100.0


def test_nested_entities_need_the_span_head() -> None:
    with pytest.raises(InputError, match="use head=span"):
        fit(NESTED)
    task, examples = fit(NESTED, head="span")
    samples = task.encode(examples, windower(), labelled=True)
    results = decode_all(task, examples, samples, [oracle(task, sample) for sample in samples])
    assert task.score(examples, results).metrics["f1"] == 100.0
    assert len(results[3].spans) == 6


@pytest.mark.parametrize(("head", "rows"), [("tag", ROWS), ("span", NESTED[1:])])
def test_it_learns(head: str, rows: list[dict[str, Any]]) -> None:
    task, examples = fit(rows, head=head)
    encoder, head_module = train_head(task, examples, windower(), steps=60 if head == "tag" else 150)
    results = predict(task, encoder, head_module, examples, windower())
    assert task.score(examples, results).metrics["f1"] == 100.0


def test_a_long_document_is_what_its_windows_are() -> None:
    """Merged by the frame, in batches; against each window alone, merged unit by unit in the plain way."""
    task, _ = fit(ROWS)
    torch.manual_seed(5)
    encoder = tiny_encoder().eval()
    head = task.head(encoder).eval()
    torch.nn.init.normal_(head.tokens.classifier.weight, std=2.0)
    text = " ".join([TEXT, "The café on the promenade opened at eight, and nobody waved."] * 40)
    example = read(NamedEntities, [{"text": text}], labelled=False)
    frame = windower(32)
    result = predict(task, encoder, head, example, frame)[0]
    tokens = frame.tokenize([text])[0]
    windows = frame.single(tokens)
    assert result.windows == len(windows) > 100
    logits = []
    with torch.no_grad():
        for window in windows:
            hidden = encoder(
                torch.from_numpy(window.sequence.ids)[None],
                token_type_ids=torch.zeros(1, len(window.sequence), dtype=torch.long),
            ).hidden[0]
            begin = window.first_start
            logits.append(head.tokens(hidden[begin : begin + len(window.first)]).numpy())
    best = best_windows([window.first for window in windows], len(tokens)).tolist()
    merged = np.stack([logits[index][token - windows[index].first.start] for token, index in enumerate(best)])
    words = np.flatnonzero(tokens.word_starts)
    ends = np.append(words[1:], len(tokens)) - 1
    first, last, labels = tags_to_spans(best_tags(merged[words], np.array([len(words)])))
    expected = [
        (int(tokens.starts[words[a]]), int(tokens.ends[ends[b]]), task.fitted.entity_labels[label])
        for a, b, label in zip(first.tolist(), last.tolist(), labels.tolist(), strict=True)
    ]
    assert len(expected) > 50
    assert [(span.start, span.end, span.label) for span in result.spans] == expected


def test_a_candidate_of_a_long_document_is_seen_once() -> None:
    task, _ = fit(NESTED, head="span")
    text = " ".join([TEXT] * 20)
    samples = task.encode(read(NamedEntities, [{"text": text}], labelled=False), windower(48), labelled=False)
    pairs = [
        pair
        for sample in samples
        for pair in zip(sample.features["starts"].tolist(), sample.features["ends"].tolist(), strict=True)
    ]
    assert len(pairs) == len(set(pairs))
    whole = task.encode(read(NamedEntities, [{"text": text}], labelled=False), windower(4000), labelled=False)[0]
    everything = set(zip(whole.features["starts"].tolist(), whole.features["ends"].tolist(), strict=True))
    missing = everything - set(pairs)
    assert not missing


def test_what_was_cut_off_is_said() -> None:
    task, _ = fit(ROWS)
    frame = windower(16)
    frame.length, frame.stride, frame.long_text = 16, None, "truncate"
    samples = task.encode(read(NamedEntities, ROWS), frame, labelled=True)
    results = decode_all(task, read(NamedEntities, ROWS), samples, [oracle(task, sample) for sample in samples])
    assert [result.truncated for result in results] == [True, False, False]
    assert [span.end for span in results[0].spans] == [4, 24, 38]


@pytest.mark.parametrize(
    ("values", "kind", "mended"),
    [
        ({}, "missing field", None),
        ({"text": 3, "spans": []}, "wrong type", None),
        ({"text": "Anna left"}, "no spans", None),
        ({"text": "Anna left", "spans": [{"start": 0, "end": 4}]}, "incomplete span", None),
        ({"text": "Anna left", "spans": [{"start": "0", "end": 4, "label": "PER"}]}, "offset is not a number", None),
        ({"text": "Anna left", "spans": [{"start": 0, "end": 4, "label": ""}]}, "empty label", None),
        ({"text": "Anna left", "spans": [{"start": 0, "end": 40, "label": "PER"}]}, "span outside the text", None),
        ({"text": "Anna left", "spans": [{"start": -1, "end": 4, "label": "PER"}]}, "span outside the text", None),
        ({"text": "Anna left", "spans": [{"start": 4, "end": 4, "label": "PER"}]}, "empty span", None),
        ({"text": "Anna left", "spans": [{"start": 0, "end": 5, "label": "PER"}]}, "space at a span's edge", (0, 4)),
        ({"text": "Anna left", "spans": [{"start": 1, "end": 4, "label": "PER"}]}, "misaligned span", (0, 4)),
        ({"text": "so Anna left", "spans": [{"start": 3, "end": 6, "label": "PER"}]}, "misaligned span", (3, 7)),
    ],
)
def test_problems(values: dict[str, Any], kind: str, mended: tuple[int, int] | None) -> None:
    problems = list(NamedEntities.problems(Row(values=values, path="x.jsonl", line=7)))
    assert [problem.kind for problem in problems] == [kind]
    assert problems[0].serious
    if mended is None:
        assert problems[0].repaired is None
    else:
        assert problems[0].repaired is not None
        span = problems[0].repaired["spans"][0]
        assert (span["start"], span["end"], span["label"]) == (*mended, "PER")
        assert not list(NamedEntities.problems(Row(values=problems[0].repaired)))
    with pytest.raises(InputError, match=r"^x\.jsonl:7: "):
        NamedEntities.read(Row(values=values, path="x.jsonl", line=7), labelled=True)


def test_crossing_spans_are_a_problem_and_nested_ones_are_not() -> None:
    def spans(*pairs: tuple[int, int]) -> list[str]:
        values = {"text": "a b c d e f g h", "spans": [{"start": a, "end": b, "label": "X"} for a, b in pairs]}
        return [problem.kind for problem in NamedEntities.problems(Row(values=values))]

    assert spans((0, 5), (4, 9)) == ["crossing spans"]
    assert spans((0, 9), (2, 5), (4, 11)) == ["crossing spans", "crossing spans"]
    assert spans((0, 9), (0, 3), (4, 9), (10, 11)) == []


def test_an_entity_inside_a_word_is_refused_by_its_line() -> None:
    rows = [Row(values=values, path="train.jsonl", line=number) for number, values in enumerate(ROWS * 40, 1)]
    rows.append(
        Row(
            values={"text": "unbelievable", "spans": [{"start": 2, "end": 9, "label": "PER"}]},
            path="train.jsonl",
            line=121,
        )
    )
    examples = [NamedEntities.read(row, labelled=True) for row in rows]
    task = NamedEntities.fit(NerConfig(), examples)
    assert task.config.units == "word"
    with pytest.raises(InputError, match=r"train\.jsonl:121: the entity 'believa'.*units=character"):
        task.encode(examples, windower(), labelled=True)


def test_training_data_without_entities_is_refused() -> None:
    with pytest.raises(InputError, match="no entity"):
        fit([{"text": "Nothing here.", "spans": []}])


def test_predictions_of_other_systems_are_read() -> None:
    task, examples = fit(ROWS)
    rows = [Row(values={"spans": values["spans"]}) for values in ROWS]
    results = [
        task.read_result(row, number, example) for number, (row, example) in enumerate(zip(rows, examples, strict=True))
    ]
    assert task.score(examples, results).metrics == {
        "precision": 100.0,
        "recall": 100.0,
        "f1": 100.0,
        "macro_f1": 100.0,
    }
    with pytest.raises(InputError, match="spans"):
        task.read_result(Row(values={"label": "PER"}), 0, examples[0])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8), st.sampled_from("AB")), max_size=6))
@settings(max_examples=60)
def test_redaction_leaves_nothing_of_any_entity(spans: list[tuple[int, int, str]]) -> None:
    text = "".join(chr(0x61 + number % 26) for number in range(28))
    entities = [Entity(start=a, end=a + n, label=label, text=text[a : a + n], score=1.0) for a, n, label in spans]
    covered = {place for a, n, _ in spans for place in range(a, a + n)}
    left = redact(text, entities, mark="#").replace("#", "")
    assert left == "".join(character for place, character in enumerate(text) if place not in covered)


def test_redaction_names_the_label() -> None:
    entities = [Entity(start=0, end=4, label="PER", text="Anna", score=1.0)]
    assert redact("Anna left.", entities) == "[PER] left."


@pytest.mark.parametrize(
    ("file", "tokenizer", "units"),
    [
        ("conll2003.dev", "bert-base-uncased", "word"),
        ("wnut17.dev", "gpt2-roberta-bpe", "word"),
        ("resume_zh.dev", "bert-base-chinese", "word"),
        ("klue_ko.dev", "bert-base-chinese", "character"),
    ],
)
def test_real_files_from_file_to_score(real_data: Path, file: str, tokenizer: str, units: str) -> None:
    """Every entity of a real file is found again at its characters, whatever the tokenizer."""
    rows = [row for row in read_rows(str(real_data / "ner" / file), NamedEntities.shape) if isinstance(row, Row)][:800]
    wrong = [row for row in rows if any(problem.serious for problem in NamedEntities.problems(row))]
    assert not wrong
    examples = [NamedEntities.read(row, labelled=True) for row in rows]
    task = NamedEntities.fit(NerConfig(), examples)
    assert task.config.units == units
    frame = windower(64, None, Tokenizer.load(real_data / "tokenizers" / tokenizer))
    samples = task.encode(examples, frame, labelled=True)
    outputs = [oracle(task, sample) for sample in samples]
    # A few entities of the Korean file end inside a word of Latin letters and digits ("KBS2").
    assert task.score(examples, decode_all(task, examples, samples, outputs)).metrics["f1"] > 99.9
    raw = NamedEntities(replace(task.config, whole_words=False), task.fitted)
    results = decode_all(raw, examples, samples, outputs)
    assert task.score(examples, results).metrics["f1"] == 100.0
    assert task.score(examples, results).metrics["recall"] == 100.0


def test_candidates_are_as_wide_as_the_entities_of_the_training_data() -> None:
    def clause(words: int) -> dict[str, Any]:
        text = " ".join(["word"] * (words + 2))
        return {"text": text, "spans": [{"start": 0, "end": 5 * words - 1, "label": "clause"}]}

    examples = read(NamedEntities, [clause(3), clause(17)])
    config = NerConfig(head="span")
    task = NamedEntities.fit(config, examples)
    assert task.config.span.max_width == 17
    assert task.notes(config, examples) == ["entities of the training data are up to 17 units wide: span.max_width=17"]
    assert sum(int((s.targets["labels"] > 0).sum()) for s in task.encode(examples, windower(), labelled=True)) == 2
    wider = read(NamedEntities, [clause(20), clause(5)])
    assert task.notes(task.config, wider) == ["1 of 2 dev entities are wider than span.max_width=17: never found"]
    assert NamedEntities.fit(config, examples[:1]).config.span.max_width == config.span.max_width
    assert NamedEntities.fit(config, read(NamedEntities, [clause(200)])).config.span.max_width == 12
