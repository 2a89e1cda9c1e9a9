"""Texts that the tokenizer hardly knows are reported wherever a user looks: predictions, scores, vectors, fillings."""

import json
from pathlib import Path

import numpy as np
import pytest

import spanlab
from spanlab.errors import UnknownTokensWarning
from spanlab.inference.fill import Filler
from spanlab.tasks.unknown_tokens import UnknownTokens
from spanlab.text import TokenizerConfig, train_tokenizer
from tests.cli.run import run_here, run_spanlab

COMPAT = Path(__file__).parents[1] / "compat" / "data"
TOPICS = COMPAT / "tasks" / "classification"
KNOWN, UNKNOWN = "Anna sold the flour in Delft.", "анна продала муку"
REMARK = r"unknown to the tokenizer for more than a tenth \('анна продала муку' is unknown in 3 of 3 tokens\)"


def test_predictions_and_vectors_warn_once_with_counts_and_the_first_text() -> None:
    model = spanlab.load(TOPICS, device="cpu", precision="fp32")
    for call in (model.predict, model.encode):
        with pytest.warns(UnknownTokensWarning, match=f"^2 of 3 texts are {REMARK}") as warned:
            call([KNOWN, UNKNOWN, "как дела"])
        assert len(warned) == 1
        with pytest.warns(UnknownTokensWarning, match=f"^the text is {REMARK}; check that the model is for"):
            call(UNKNOWN)


@pytest.mark.filterwarnings("error::spanlab.errors.UnknownTokensWarning")
def test_known_and_empty_texts_are_silent() -> None:
    model = spanlab.load(TOPICS, device="cpu", precision="fp32")
    model.predict([KNOWN, ""])
    model.encode([KNOWN, ""])
    assert len(Filler(COMPAT / "models" / "bert").fill("Anna sold the [MASK] in Delft.").notes) == 1


def test_scores_and_fillings_have_a_remark(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    rows = [{"text": text, "label": "trade"} for text in (KNOWN, UNKNOWN)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (remark,) = spanlab.load(TOPICS, device="cpu", precision="fp32").evaluate(str(data)).remarks
    assert remark.startswith("1 of 2 texts are unknown to the tokenizer for more than a tenth")
    notes = Filler(COMPAT / "models" / "bert").fill("муку [MASK]").notes
    assert notes[-1].startswith("the text is unknown to the tokenizer for more than a tenth")


def test_the_text_is_quoted_and_not_its_labels() -> None:
    model = spanlab.load(COMPAT / "tasks" / "ner-tag", device="cpu", precision="fp32")
    spans = [{"start": 0, "end": 4, "label": "PER"}] * 3
    with pytest.warns(UnknownTokensWarning, match=f"^the text is {REMARK}"):
        model.predict({"text": UNKNOWN, "spans": spans})


def test_commands_say_it_in_one_line_on_stderr(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{KNOWN}\n{UNKNOWN}\n", encoding="utf-8")
    vectors = ("embed", str(TOPICS), "--input", str(texts), "--output", str(tmp_path / "vectors.npy"))
    for arguments in (("predict", str(TOPICS), "--input", str(texts), "--json"), vectors):
        told = run_spanlab(*arguments)
        assert told.returncode == 0
        lines = [line for line in told.stderr.splitlines() if "unknown" in line]
        assert len(lines) == 1
        assert lines[0].startswith("spanlab: 1 of 2 texts are unknown to the tokenizer")


def test_training_data_that_are_unknown_are_noted(tiny_model: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.jsonl"
    rows = [{"text": text, "label": label} for text, label in ((KNOWN, "a"), ("漢字 漢字", "b"))]
    train.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    arguments = ("--model", str(tiny_model), "--train", str(train), "--out", str(tmp_path / "run"), "--dry-run")
    told = run_here("finetune", "classification", *arguments)
    assert "1 of 2 texts are unknown to the tokenizer" in told.stdout + told.stderr


def test_tokenizers_whose_unknown_token_is_another_one_report_nothing() -> None:
    tokenizer = train_tokenizer([KNOWN] * 3, TokenizerConfig(kind="bpe", vocab_size=270, system="gpt"))
    tally = UnknownTokens(tokenizer)
    tally.add(UNKNOWN, [np.append(tokenizer.encode(UNKNOWN).ids, [tokenizer.sep_id] * 9)])
    assert tally.remarks == ()
