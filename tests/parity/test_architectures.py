"""Every architecture and head equals transformers': outputs, gradients and folders, on tiny random models."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

import transformers as hf

from spanlab.encoder import Encoder, Model, load_model, save_model
from tests.parity.models import CASES, PAIRS, body_of

CLOSE = {"rtol": 0.0, "atol": 1e-5}


def loaded_pair(name: str, class_name: str, folder: Path) -> tuple[hf.PreTrainedModel, Model]:
    theirs = CASES[name].build(class_name)
    theirs.save_pretrained(folder)
    return theirs, load_model(folder)


def inputs(name: str, *, segments: bool) -> dict[str, torch.Tensor]:
    ids, mask = CASES[name].batch()
    given = {"input_ids": ids, "attention_mask": mask}
    if segments:
        given["token_type_ids"] = (torch.arange(ids.shape[1]) > 4).long().expand_as(ids).contiguous()
    return given


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_hidden_states_and_pooled_output(name: str, segments: bool, tmp_path: Path) -> None:
    if segments and not CASES[name].segments:
        pytest.skip("this architecture has no segments")
    class_name = next(iter(CASES[name].classes))
    theirs, ours = loaded_pair(name, class_name, tmp_path)
    theirs.eval(), ours.encoder.eval()
    given = inputs(name, segments=segments)
    real = given["attention_mask"].bool()
    with torch.no_grad():
        reference = body_of(theirs)(**given, output_hidden_states=True)
        output = ours.encoder(**given, output_hidden_states=True)
    torch.testing.assert_close(output.hidden[real], reference.last_hidden_state[real], **CLOSE)
    assert output.hidden_states is not None
    assert len(output.hidden_states) == len(reference.hidden_states)
    for ours_layer, their_layer in zip(output.hidden_states[1:], reference.hidden_states[1:], strict=True):
        torch.testing.assert_close(ours_layer[real], their_layer[real], **CLOSE)
    assert (output.hidden[~real] == 0).all()
    if ours.encoder.pooler is not None:
        torch.testing.assert_close(output.pooled, reference.pooler_output, **CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_without_a_mask(name: str, tmp_path: Path) -> None:
    theirs, ours = loaded_pair(name, next(iter(CASES[name].classes)), tmp_path)
    theirs.eval(), ours.encoder.eval()
    ids, _ = CASES[name].batch()
    ids[:, :] = ids[0]
    with torch.no_grad():
        reference = body_of(theirs)(input_ids=ids).last_hidden_state
        torch.testing.assert_close(ours.encoder(ids).hidden, reference, **CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_attention_weights(name: str, tmp_path: Path) -> None:
    class_name = next(iter(CASES[name].classes))
    theirs, ours = loaded_pair(name, class_name, tmp_path)
    if class_name not in {"OpenAIGPTModel", "XLNetModel", "XLNetLMHeadModel"}:  # they know no other way
        theirs.set_attn_implementation("eager")
    theirs.eval(), ours.encoder.eval()
    given = inputs(name, segments=False)
    with torch.no_grad():
        reference = body_of(theirs)(**given, output_attentions=True).attentions
        output = ours.encoder(**given, output_attentions=True)
    assert output.attentions is not None
    pairs = (given["attention_mask"][:, None, :, None] * given["attention_mask"][:, None, None, :]).bool()
    for ours_layer, their_layer in zip(output.attentions, reference, strict=True):
        wanted = pairs.expand_as(ours_layer)
        torch.testing.assert_close(ours_layer[wanted], their_layer[wanted], **CLOSE)
        assert (ours_layer[~wanted] == 0).all()


def head_logits(model: Model, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What each head says, at every real token (token heads) or for every sequence (pair heads)."""
    output = model.encoder(**given)
    hidden = output.hidden[given["attention_mask"].bool()]
    table = model.encoder.word_table
    takes = {
        "mlm": lambda head: head(hidden, table),
        "clm": lambda head: head(hidden, table),
        "plm": lambda head: head(hidden, table),
        "rtd": lambda head: head(hidden),
        "nsp": lambda head: head(output.pooled),
        "sop": lambda head: head(output.pooled),
    }
    return {name: takes[name](head) for name, head in model.heads.items()}


def their_logits(class_name: str, output: object, real: torch.Tensor) -> dict[str, torch.Tensor]:
    if class_name == "BertForPreTraining":
        return {"mlm": output.prediction_logits[real], "nsp": output.seq_relationship_logits}  # type: ignore[attr-defined]
    if class_name == "AlbertForPreTraining":
        return {"mlm": output.prediction_logits[real], "sop": output.sop_logits}  # type: ignore[attr-defined]
    (head,) = {held for case in CASES.values() for held in case.classes.get(class_name, ())}
    return {head: output.logits[real]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "class_name"), [pair for pair in PAIRS if CASES[pair[0]].classes[pair[1]]])
def test_heads_and_gradients_in_training_mode(name: str, class_name: str, tmp_path: Path) -> None:
    theirs, ours = loaded_pair(name, class_name, tmp_path)
    assert set(ours.heads) == set(CASES[name].classes[class_name])
    assert ours.report.unexpected == ()
    theirs.train(), ours.encoder.train()
    given = inputs(name, segments=CASES[name].segments)
    real = given["attention_mask"].bool()
    reference = their_logits(class_name, theirs(**given), real)
    logits = head_logits(ours, given)
    for head, wanted in reference.items():
        torch.testing.assert_close(logits[head], wanted, **CLOSE)
    sum(x.square().mean() for x in reference.values()).backward()
    sum(x.square().mean() for x in logits.values()).backward()
    compare_gradients(theirs, ours)


def compare_gradients(theirs: hf.PreTrainedModel, ours: Model) -> None:
    """Each of our gradients, written under their names, equals theirs."""
    from spanlab.encoder.pretrained.config_json import LAYOUTS
    from spanlab.encoder.pretrained.translate import encoder_rules, to_theirs

    config = ours.encoder.config
    layout = LAYOUTS[config.architecture]
    body = {n: p.grad for n, p in ours.encoder.named_parameters() if p.grad is not None}
    wanted, _ = to_theirs(body, encoder_rules(layout, config), heads=config.heads)
    wanted = {layout.prefix + name: gradient for name, gradient in wanted.items()}
    for head, module in ours.heads.items():
        own = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        wanted |= to_theirs(own, layout.heads[head])[0]
    rename = dict([layout.twin_bias] if layout.twin_bias else [])
    gradients = {rename.get(name, name): p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    assert wanted.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(wanted[name], gradient, rtol=0.0, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize(("name", "class_name"), PAIRS)
def test_round_trip_is_bit_identical_and_raises_no_complaint(name: str, class_name: str, tmp_path: Path) -> None:
    theirs, ours = loaded_pair(name, class_name, tmp_path / "theirs")
    save_model(tmp_path / "ours", ours.encoder, ours.heads if CASES[name].classes[class_name] else {})
    again, report = getattr(hf, class_name).from_pretrained(tmp_path / "ours", output_loading_info=True)
    complaints = {kind: names for kind, names in report.items() if names}
    assert complaints == {}
    expected = theirs.state_dict()
    if name == "bert-untied":  # transformers keeps a second bias here that it never computes with
        expected["cls.predictions.bias"] = expected["cls.predictions.decoder.bias"]
    for key, tensor in again.state_dict().items():
        assert torch.equal(tensor, expected[key]), key
    back = load_model(tmp_path / "ours")
    assert back.encoder.config == ours.encoder.config
    for key, tensor in back.encoder.state_dict().items():
        assert torch.equal(tensor, ours.encoder.state_dict()[key]), key
    for head, module in back.heads.items():
        for key, tensor in module.state_dict().items():
            assert torch.equal(tensor, ours.heads[head].state_dict()[key]), f"{head} {key}"


def test_the_real_minilm(minilm: Path, tmp_path: Path) -> None:
    theirs = hf.AutoModel.from_pretrained(minilm).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(minilm)
    given = dict(
        tokenizer(
            ["A span has two ends.", "Between them lie the words that a model learns to guess from the outside."],
            padding=True,
            return_tensors="pt",
        )
    )
    real = given["attention_mask"].bool()
    ours = Encoder.from_pretrained(minilm).eval()
    with torch.no_grad():
        reference, output = theirs(**given), ours(**given)
    torch.testing.assert_close(output.hidden[real], reference.last_hidden_state[real], rtol=0.0, atol=1e-4)
    torch.testing.assert_close(output.pooled, reference.pooler_output, rtol=0.0, atol=1e-4)
    ours.save_pretrained(tmp_path)
    again, report = hf.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert {kind: names for kind, names in report.items() if names} == {}
    for key, tensor in again.state_dict().items():
        assert torch.equal(tensor, theirs.state_dict()[key]), key
