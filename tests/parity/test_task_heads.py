"""The task heads equal transformers': logits, and folders both ways."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import transformers as hf

from spanlab.encoder import Model, load_model, save_model
from tests.parity.models import CASES

CLOSE = {"rtol": 0.0, "atol": 1e-5}
SYSTEMS = {"bert": "Bert", "roberta": "Roberta", "albert": "Albert", "electra": "Electra"}
CLASSES = {"sequence": "SequenceClassification", "token": "TokenClassification", "answer": "QuestionAnswering"}
PAIRS = [(system, head) for system in SYSTEMS for head in CLASSES]


def class_name(system: str, head: str) -> str:
    return f"{SYSTEMS[system]}For{CLASSES[head]}"


def our_logits(model: Model, head: str, given: dict[str, torch.Tensor]) -> torch.Tensor:
    output = model.encoder(**given)
    if head == "sequence":
        return model.heads["sequence"](output.hidden[:, 0], output.pooled)
    return model.heads[head](output.hidden)


def their_logits(model: Any, head: str, given: dict[str, torch.Tensor]) -> torch.Tensor:
    output = model(**given)
    return torch.stack([output.start_logits, output.end_logits], dim=-1) if head == "answer" else output.logits


@pytest.mark.parametrize(("system", "head"), PAIRS)
def test_logits_equal_and_folders_go_both_ways(system: str, head: str, tmp_path: Path) -> None:
    case = CASES[system]
    case.config.num_labels = 2 if head == "answer" else 5
    theirs = case.build(class_name(system, head)).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    assert set(ours.heads) == {head}
    assert ours.report.unexpected == ()
    ours.encoder.eval(), ours.heads[head].eval()
    ids, mask = case.batch()
    given = {"input_ids": ids, "attention_mask": mask}
    real = mask.bool() if head != "sequence" else slice(None)
    with torch.no_grad():
        wanted = their_logits(theirs, head, given)[real]
        torch.testing.assert_close(our_logits(ours, head, given)[real], wanted, **CLOSE)

    labels = {"id2label": {i: f"label {i}" for i in range(5)}, "label2id": {f"label {i}": i for i in range(5)}}
    save_model(tmp_path / "ours", ours.encoder, ours.heads, config_keys=labels if head != "answer" else {})
    back, report = getattr(hf, class_name(system, head)).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    # The weights to the bit; products of them may round otherwise where memory is aligned otherwise.
    for name, weight in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name
    with torch.no_grad():
        torch.testing.assert_close(their_logits(back.eval(), head, given)[real], wanted, rtol=1e-5, atol=1e-6)
    again = load_model(tmp_path / "ours")
    assert set(again.heads) == {head}


def test_heads_that_transformers_has_no_class_for_stay_beside(tmp_path: Path) -> None:
    theirs = CASES["bert"].build("BertModel")
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    head = torch.nn.Linear(32, 3)
    save_model(tmp_path / "ours", ours.encoder, tasks={"spans": head}, described={"task": "ner"})
    again = load_model(tmp_path / "ours")
    assert again.described["task"] == "ner"
    assert torch.equal(again.tasks["spans"]["weight"], head.weight)
    assert again.heads == {}
    hf.BertModel.from_pretrained(tmp_path / "ours")
