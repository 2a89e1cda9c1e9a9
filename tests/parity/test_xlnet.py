"""XLNet equals transformers' where its own features are used: order, places, memory, directions, left padding."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("transformers")

import transformers as hf

from spanlab.encoder import Model, XLNetEncoder, load_model, save_model
from tests.parity.models import CASES, VOCAB
from tests.parity.test_architectures import compare_gradients

CLOSE = {"rtol": 0.0, "atol": 1e-5}
BATCH, LENGTH, PLACES = 4, 12, 3


def pair(folder: Path, **changes: object) -> tuple[hf.XLNetLMHeadModel, Model]:
    """Theirs with random weights, and ours from its folder."""
    theirs = CASES["xlnet"].build("XLNetLMHeadModel")
    for name, value in changes.items():
        setattr(theirs.config, name, value)
        setattr(theirs.transformer, name, value)
    theirs.save_pretrained(folder)
    return theirs.eval(), load_model(folder)


def segments_of_text(count: int) -> list[dict[str, Tensor]]:
    """Consecutive segments with an order, places and segment ids of their own; every place sees something."""
    generator = torch.Generator().manual_seed(count)
    given = []
    for _ in range(count):
        rank = torch.rand(BATCH, LENGTH, generator=generator).argsort(1)
        visible = rank[:, None, :] < rank[:, :, None]
        first = rank.argmin(1)
        places = torch.rand(BATCH, LENGTH, generator=generator).scatter(1, first[:, None], 2.0).argsort(1)
        given.append(
            {
                "ids": torch.randint(4, VOCAB, (BATCH, LENGTH), generator=generator),
                "visible": visible,
                "places": places[:, :PLACES],
                "segments": torch.randint(0, 3, (BATCH, LENGTH), generator=generator),
            }
        )
    return given


def mapping_of(places: Tensor) -> Tensor:
    return torch.zeros(BATCH, PLACES, LENGTH).scatter_(2, places[..., None], 1.0)


@pytest.mark.parametrize("backward_rows", [0, BATCH // 2])
@pytest.mark.parametrize("reuse", [None, 5])
def test_two_streams_with_memory_over_three_segments(backward_rows: int, reuse: int | None, tmp_path: Path) -> None:
    theirs, ours = pair(tmp_path, reuse_len=reuse)
    theirs.transformer.bi_data = backward_rows > 0
    encoder = ours.encoder
    assert isinstance(encoder, XLNetEncoder)
    assert encoder.config.reuse == reuse
    their_memory = our_memory = None
    for given in segments_of_text(3):
        reference = theirs(
            given["ids"],
            perm_mask=(~given["visible"]).float(),
            target_mapping=mapping_of(given["places"]),
            token_type_ids=given["segments"],
            mems=their_memory,
            use_mems=True,
        )
        output = encoder.read(
            given["ids"],
            visible_BTT=given["visible"],
            positions_BK=given["places"],
            segment_ids_BT=given["segments"],
            memory_LBMD=our_memory,
            backward_rows=backward_rows,
        )
        their_memory, our_memory = reference.mems, output.memory_LBMD
        assert output.predicted_BKD is not None
        logits = ours.head("plm")(output.predicted_BKD, encoder.word_table)
        torch.testing.assert_close(logits, reference.logits, **CLOSE)
        for layer, memory in enumerate(their_memory):
            torch.testing.assert_close(our_memory[layer], memory.transpose(0, 1), **CLOSE)
    assert not our_memory.requires_grad
    reference.logits.square().mean().backward()
    logits.square().mean().backward()
    compare_gradients(theirs, ours)


def test_content_stream_with_memory(tmp_path: Path) -> None:
    theirs, ours = pair(tmp_path)
    encoder = ours.encoder
    assert isinstance(encoder, XLNetEncoder)
    their_memory = our_memory = None
    with torch.no_grad():
        for given in segments_of_text(3):
            reference = theirs.transformer(given["ids"], mems=their_memory, use_mems=True)
            output = encoder.read(given["ids"], memory_LBMD=our_memory)
            their_memory, our_memory = reference.mems, output.memory_LBMD
            torch.testing.assert_close(output.hidden_BTD, reference.last_hidden_state, **CLOSE)


def test_places_without_an_order_see_everything(tmp_path: Path) -> None:
    theirs, ours = pair(tmp_path)
    (given,) = segments_of_text(1)
    with torch.no_grad():
        reference = theirs.transformer(given["ids"], target_mapping=mapping_of(given["places"])).last_hidden_state
        output = ours.encoder.read(given["ids"], positions_BK=given["places"])  # type: ignore[operator]
    torch.testing.assert_close(output.predicted_BKD, reference, **CLOSE)


def test_padding_on_the_left(tmp_path: Path) -> None:
    theirs, ours = pair(tmp_path)
    (given,) = segments_of_text(1)
    mask = (torch.arange(LENGTH) >= torch.tensor([0, 3, 3, 9])[:, None]).long()
    with torch.no_grad():
        reference = theirs.transformer(given["ids"], attention_mask=mask.float(), token_type_ids=given["segments"])
        output = ours.encoder(given["ids"], attention_mask=mask, token_type_ids=given["segments"])
    real = mask.bool()
    torch.testing.assert_close(output.hidden[real], reference.last_hidden_state[real], **CLOSE)
    assert (output.hidden[~real] == 0).all()


def test_summary_of_the_last_token(tmp_path: Path) -> None:
    """A classifier's summary layer is our pooler, is saved beside what the bare class holds, and comes back."""
    theirs = hf.XLNetForSequenceClassification(CASES["xlnet"].config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_model(tmp_path / "theirs")
    assert set(ours.report.unexpected) == {"logits_proj.weight", "logits_proj.bias"}
    (given,) = segments_of_text(1)
    with torch.no_grad():
        reference = theirs(given["ids"]).logits
        pooled = ours.encoder(given["ids"]).pooled
        torch.testing.assert_close(theirs.logits_proj(pooled), reference, **CLOSE)
    save_model(tmp_path / "ours", ours.encoder)
    again = load_model(tmp_path / "ours")
    assert again.encoder.pooler is not None
    assert torch.equal(again.encoder.pooler.weight, ours.encoder.pooler.weight)  # type: ignore[union-attr]
    _, report = hf.XLNetModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report.values())
