"""A transformers encoder that is not of our family behaves like one of ours."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import transformers as hf

from spanlab.encoder import Encoder
from spanlab.encoder.transformers_encoder import TransformersEncoder
from spanlab.errors import InputError

CONFIGS: dict[str, Any] = {
    "distilbert": lambda: hf.DistilBertConfig(vocab_size=67, dim=32, n_layers=2, n_heads=2, hidden_dim=48),
    "xlm-roberta": lambda: hf.XLMRobertaConfig(
        vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, pad_token_id=1
    ),
    "deberta-v2": lambda: hf.DebertaV2Config(
        vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    ),
}


@pytest.fixture(params=CONFIGS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    hf.AutoModel.from_config(CONFIGS[request.param]()).save_pretrained(tmp_path)
    return tmp_path


def test_padded_and_packed_equal_the_model_itself(folder: Path) -> None:
    encoder = Encoder.from_pretrained(folder).eval()
    assert isinstance(encoder, TransformersEncoder)
    assert encoder.word_table.shape == (67, 32)
    ids = torch.randint(3, 67, (3, 9))
    lengths = torch.tensor([9, 4, 6])
    mask = torch.arange(9) < lengths[:, None]
    with torch.no_grad():
        theirs = hf.AutoModel.from_pretrained(folder).eval()(input_ids=ids, attention_mask=mask.long())
        padded = encoder(ids, attention_mask=mask)
        packed = encoder(ids[mask], lengths=lengths)
    torch.testing.assert_close(padded.hidden[mask], theirs.last_hidden_state[mask], rtol=0.0, atol=1e-5)
    torch.testing.assert_close(packed.hidden, padded.hidden[mask], rtol=0.0, atol=1e-5)
    assert (padded.hidden[~mask] == 0).all()


def test_saves_and_loads(folder: Path, tmp_path: Path) -> None:
    encoder = Encoder.from_pretrained(folder)
    encoder.save_pretrained(tmp_path / "again")
    again = Encoder.from_pretrained(tmp_path / "again")
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, encoder.state_dict()[name]), name


def test_a_head_mask_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="head_mask"):
        Encoder.from_pretrained(folder)(torch.ones(1, 3, dtype=torch.long), head_mask=torch.ones(2))
