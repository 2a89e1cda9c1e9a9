"""Questions: answers mapped to characters, windows and documents merged, no answer decided everywhere alike."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spanlab.errors import InputError
from spanlab.tasks.formats.reading import read_rows
from spanlab.tasks.formats.row import Row
from spanlab.tasks.qa.config import QaConfig
from spanlab.tasks.qa.decode import WindowAnswers
from spanlab.tasks.qa.task import THRESHOLD, QuestionAnswering
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.config import SpanConfig
from spanlab.text import Tokenizer
from spanlab.text.words import script_language
from tests.tasks.making import BPE, by_example, decode_all, predict, read, run_head, tiny_encoder, train_head, windower

FERRY = "The ferry left the island before dawn. Nobody on the quay waved, because nobody was awake."
CAFE = "The café on the promenade opened at eight, and Mr. Brown ordered his naïve little breakfast."
ROWS: list[dict[str, Any]] = [
    {"question": "When did the ferry leave?", "context": FERRY, "answers": [{"text": "before dawn", "start": 26}]},
    {"question": "Who ordered breakfast?", "context": CAFE, "answers": [{"text": "Mr. Brown", "start": 47}]},
    {"question": "What opened?", "context": CAFE, "answers": [{"text": "The café", "start": 0}]},
]
SILENT = {"question": "Who barked?", "context": FERRY, "answers": []}


def fit(rows: list[dict[str, Any]], **changes: Any) -> tuple[QuestionAnswering, list[Any]]:
    examples = read(QuestionAnswering, rows)
    return QuestionAnswering.fit(QaConfig(**changes), examples), examples


def oracle(sample: Sample) -> WindowAnswers:
    """What a head that knows the targets would say: the answer, or that there is none."""
    null, first, last = (int(sample.features["null"][0]), *(int(sample.targets[name][0]) for name in ("first", "last")))
    begin = int(sample.features["begin"][0]) + 1  # "The" alone would be no answer to the scorer
    known = first != null
    place = np.array([first if known else begin]), np.array([last if known else begin])
    scores = np.array([9.0 if known else 1.0], dtype=np.float32)
    return WindowAnswers(scores=scores, first=place[0], last=place[1], null=0.0 if known else 5.0)


@pytest.mark.parametrize("length", [24, 30, 128])
def test_what_is_encoded_is_decoded(length: int) -> None:
    task, examples = fit([*ROWS, SILENT])
    samples = task.encode(examples, windower(length, 8), labelled=True)
    results = decode_all(task, examples, samples, [oracle(sample) for sample in samples])
    assert [result.answer for result in results] == ["before dawn", "Mr. Brown", "The café", ""]
    assert [result.start for result in results] == [26, 47, 0, None]
    assert [result.no_answer for result in results] == [False, False, False, True]
    assert (results[0].windows > 1) == (length < 128)
    metrics = task.score(examples, results).metrics
    assert metrics["exact_match"] == metrics["f1"] == metrics["no_answer_f1"] == metrics["has_answer_f1"] == 100.0


@pytest.mark.parametrize("head", ["pointers", "span"])
def test_it_learns(head: str) -> None:
    task, examples = fit([*ROWS, SILENT], head=head, max_answer=6)
    encoder, head_module = train_head(task, examples, windower(), steps=160)
    results = predict(task, encoder, head_module, examples, windower())
    assert task.score(examples, results).metrics["f1"] == 100.0
    assert all(len(result.nbest) == 20 for result in results)
    for result in results:
        assert 0.99 < sum(answer.score for answer in result.nbest) <= 1.0 + 1e-4
        for answer in result.nbest:
            assert answer.start is None or answer.answer == result.contexts[0][answer.start : answer.end]


@pytest.mark.parametrize("whole_words", [True, False])
@pytest.mark.parametrize("tokenizer_name", ["wordpiece", "bpe"])
def test_a_long_document_is_what_its_windows_are(tokenizer_name: str, whole_words: bool) -> None:
    """Against a plain double loop over every pair of every window, each computed alone."""
    from tests.tasks.making import TOKENIZER

    tokenizer = BPE if tokenizer_name == "bpe" else TOKENIZER
    task, _ = fit([*ROWS, SILENT], max_answer=5, n_best=7, whole_words=whole_words)
    torch.manual_seed(2)
    encoder = tiny_encoder(tokenizer, "roberta" if tokenizer_name == "bpe" else "bert").eval()
    head = task.head(encoder).eval()
    torch.nn.init.normal_(head.ends.ends.weight, std=3.0)
    text = " ".join([FERRY, CAFE, "At 6.45 a.m. the fog lifted."] * 12)
    example = read(QuestionAnswering, [{"question": "When?", "context": text}], labelled=False)
    frame = windower(48, 16, tokenizer, segments=encoder.config.segments)
    result = predict(task, encoder, head, example, frame)[0]
    question, context = frame.tokenize(["When?", text])
    best: dict[tuple[int, int], float] = {}
    nulls = []
    windows = frame.question(question, context)
    for window in windows:
        ids = torch.from_numpy(window.sequence.ids)
        segments = None if window.sequence.segments is None else torch.from_numpy(window.sequence.segments)[None]
        with torch.no_grad():
            start, end = head.ends(encoder(ids[None], token_type_ids=segments).hidden[0]).T.tolist()
        assert window.second is not None
        nulls.append(start[0] + end[0])
        for a in range(len(window.second)):
            for b in range(a, min(a + 5, len(window.second))):
                first, last = window.second.start + a, window.second.start + b
                key = int(context.starts[first]), int(context.ends[last])
                cut = re.match(r"\w\w", text[key[0] - 1 :][:2]) or re.match(r"\w\w", text[key[1] - 1 :][:2])
                if whole_words and key[0] and cut:
                    continue
                score = start[window.second_start + a] + end[window.second_start + b]
                best[key] = max(score, best.get(key, -np.inf))
    assert result.windows == len(windows) > 10
    expected = sorted(best.items(), key=lambda item: -item[1])[:7]
    found = [(answer.start, answer.end) for answer in result.nbest if answer.start is not None]
    assert found == [key for key, _ in expected][: len(found)]
    assert len(found) >= 6
    weights = np.exp(np.array([score for _, score in expected] + [min(nulls)]) - expected[0][1])
    assert result.nbest[0].score == pytest.approx(float((weights / weights.sum()).max()), abs=1e-4)
    assert result.no_answer == (min(nulls) - expected[0][1] > 0)


def test_batches_do_not_change_answers() -> None:
    task, examples = fit([*ROWS, SILENT])
    torch.manual_seed(3)
    encoder = tiny_encoder().eval()
    head = task.head(encoder).eval()
    torch.nn.init.normal_(head.ends.ends.weight, std=3.0)
    samples = task.encode(examples, windower(24, 6), labelled=False)
    runs = []
    for tokens in (24, 100_000):
        outputs = run_head(task, encoder, head, samples, batch_tokens=tokens)
        runs.append([(one.answer, one.start, one.no_answer) for one in decode_all(task, examples, samples, outputs)])
    assert runs[0] == runs[1]


def test_several_documents_of_one_question() -> None:
    rows = [
        {
            "question": "Who ordered breakfast?",
            "context": [FERRY, CAFE],
            "answers": [{"text": "Mr. Brown", "start": 47, "document": 1}],
        },
        {
            "question": "When did it leave?",
            "context": [FERRY, CAFE],
            "answers": [{"text": "before dawn", "start": 26, "document": 0}],
        },
    ]
    task, examples = fit(rows)
    samples = task.encode(examples, windower(30, 8), labelled=True)
    results = decode_all(task, examples, samples, [oracle(sample) for sample in samples])
    assert [(result.answer, result.document) for result in results] == [("Mr. Brown", 1), ("before dawn", 0)]
    encoder = tiny_encoder().eval()
    head = task.head(encoder).eval()
    torch.nn.init.normal_(head.ends.ends.weight, std=3.0)
    forward = predict(task, encoder, head, examples[:1], windower(30, 8))[0]
    turned = predict(task, encoder, head, [replace(examples[0], contexts=(CAFE, FERRY))], windower(30, 8))[0]
    assert (forward.answer, forward.start, forward.document) == (turned.answer, turned.start, 1 - turned.document)


def test_without_unanswerable_questions_there_is_always_an_answer() -> None:
    task, examples = fit(ROWS)
    assert task.fitted.thresholds == {}
    samples = task.encode(examples, windower(), labelled=True)
    silent = [replace(oracle(sample), null=99.0) for sample in samples]
    assert all(not result.no_answer for result in decode_all(task, examples, samples, silent))


def test_the_threshold_is_tuned_and_then_used() -> None:
    rows = [*ROWS, SILENT, {**SILENT, "question": "Who laughed?"}]
    task, examples = fit(rows)
    samples = task.encode(examples, windower(), labelled=True)
    # An answer is told from none by the difference, but not at 0.
    outputs = [replace(oracle(sample), null=-3.0 if sample.example >= 3 else -8.0) for sample in samples]
    outputs = [replace(output, scores=np.zeros(1, np.float32)) for output in outputs]
    before = task.score(examples, decode_all(task, examples, samples, outputs)).metrics["f1"]
    tuned = task.tune(examples, by_example(samples, samples, 5), by_example(samples, outputs, 5))
    assert -8.0 <= tuned.fitted.thresholds[THRESHOLD] < -3.0
    results = decode_all(tuned, examples, samples, outputs)
    assert [result.no_answer for result in results] == [False, False, False, True, True]
    assert tuned.score(examples, results).metrics["f1"] == 100.0 > before
    assert task.tune(examples[:3], [], []) is task


def test_a_long_question_is_cut_and_the_result_says_so() -> None:
    task, examples = fit([{**ROWS[0], "question": "When " * 30 + "?"}, ROWS[0]], max_question=12)
    samples = task.encode(examples, windower(), labelled=True)
    results = decode_all(task, examples, samples, [oracle(sample) for sample in samples])
    assert [result.truncated for result in results] == [True, False]
    assert results[0].answer == "before dawn"


@pytest.mark.parametrize(
    ("changes", "kind", "mended"),
    [
        ({"question": ""}, "empty text", None),
        ({"context": None}, "missing field", None),
        ({"context": []}, "no context", None),
        ({"answers": None}, "no answers", None),
        ({"answers": "dawn"}, "no answers", None),
        ({"answers": [{"text": "dawn"}]}, "incomplete answer", None),
        ({"answers": [{"text": " ", "start": 3}]}, "empty answer", None),
        ({"answers": [{"text": "dawn", "start": 33, "document": 2}]}, "no such document", None),
        ({"answers": [{"text": "moon", "start": 33}]}, "misaligned answer", None),
        ({"answers": [{"text": "the", "start": 60}]}, "misaligned answer", None),
        ({"answers": [{"text": "dawn", "start": 34}]}, "misaligned answer", ("dawn", 33)),
        ({"answers": [{"text": "dawn", "start": 2}]}, "misaligned answer", ("dawn", 33)),
        ({"answers": [{"text": "dawn", "start": -1}]}, "misaligned answer", ("dawn", 33)),
        ({"answers": [{"text": " dawn", "start": 32}]}, "space at an answer's edge", ("dawn", 33)),
    ],
)
def test_problems(changes: dict[str, Any], kind: str, mended: tuple[str, int] | None) -> None:
    row = Row(values={**ROWS[0], **changes}, path="train.jsonl", line=3)
    problems = list(QuestionAnswering.problems(row))
    assert [problem.kind for problem in problems] == [kind]
    if mended is None:
        assert problems[0].repaired is None
    else:
        assert problems[0].repaired is not None
        answer = problems[0].repaired["answers"][0]
        assert (answer["text"], answer["start"]) == mended
        assert not list(QuestionAnswering.problems(Row(values=problems[0].repaired)))
    if problems[0].serious:
        with pytest.raises(InputError, match=r"^train\.jsonl:3: "):
            QuestionAnswering.read(row, labelled=True)
    else:
        assert QuestionAnswering.read(row, labelled=True).answers[0].text == " dawn"


def test_language_by_script() -> None:
    assert script_language(["Who invented the telephone?"]) == "en"
    assert script_language(["谁发明了电话？"]) == "zh"
    assert script_language(["누가 전화를 발명했습니까? Bell?"]) == "ko"
    assert script_language([]) == "en"


@pytest.mark.parametrize(
    ("file", "tokenizer", "language", "faulty"),
    [
        ("squad2_half_dev.json", "bert-base-uncased", "en", 0),
        ("squad2_half_dev.json", "gpt2-roberta-bpe", "en", 0),
        ("cmrc2018_trial_zh.json", "bert-base-chinese", "zh", 7),
        ("korquad1_dev_ko.json", "bert-base-chinese", "ko", 0),
    ],
)
def test_real_files_from_file_to_score(real_data: Path, file: str, tokenizer: str, language: str, faulty: int) -> None:
    """Every answer is mapped to tokens and back: the text found is the context's own, and holds the right answer."""
    rows = [row for row in read_rows(str(real_data / "qa" / file), QuestionAnswering.shape) if isinstance(row, Row)]
    rows = rows[:1002]
    wrong = [row for row in rows if any(problem.serious for problem in QuestionAnswering.problems(row))]
    assert len(wrong) == faulty
    examples = [QuestionAnswering.read(row, labelled=True) for row in rows if row not in wrong]
    task = QuestionAnswering.fit(QaConfig(), examples)
    assert script_language(example.question for example in examples) == language
    frame = windower(384, 128, Tokenizer.load(real_data / "tokenizers" / tokenizer))
    samples = task.encode(examples, frame, labelled=True)
    samples_of = by_example(samples, samples, len(examples))
    results = decode_all(task, examples, samples, [oracle(sample) for sample in samples])
    whole = told = 0
    for number, (example, result) in enumerate(zip(examples, results, strict=True)):
        if not example.answers:
            assert result.no_answer
            continue
        gold = example.answers[0]
        if not any(sample.targets["first"] != sample.features["null"] for sample in samples_of[number]):
            assert len(gold.text) > 200  # longer than any two windows share
            continue
        told += 1
        assert result.answer == example.contexts[0][result.start : result.end]
        start = gold.start + len(gold.text) - len(gold.text.lstrip())
        assert result.start <= start < start + len(gold.text.strip()) <= result.end
        whole += result.answer == gold.text.strip()
    # The rest begin or end inside a word piece: the tokens that hold them are what a model can say.
    assert whole >= 0.9 * told


def test_candidates_too_wide_to_be_found_are_no_terms() -> None:
    task, examples = fit([*ROWS, SILENT], head="span", max_answer=1, span=SpanConfig(inside="mean"))
    encoder = tiny_encoder()
    head = task.head(encoder)
    from spanlab.tasks.network import MultiTaskNetwork
    from spanlab.tasks.sample import SampleBatch
    from spanlab.tasks.tensor_batch import pack_samples

    batch = SampleBatch(task="qa", samples=tuple(task.encode(examples, windower(), labelled=True)))
    criterion = MultiTaskNetwork(encoder, {"qa": head})
    loss = criterion(pack_samples(batch), criterion.counts(batch))
    assert criterion.counts(batch) == {"qa": 1}
    assert loss.parts["qa"].count == 1
    assert torch.isfinite(loss.value)
