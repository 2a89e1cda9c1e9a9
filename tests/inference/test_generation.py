"""Text in, text out: what is added, what is whole, and what is refused, in Python and on the command line."""

import json
from pathlib import Path

import pytest
import torch

from spanlab.decoding.config import DecodingConfig
from spanlab.encoder import CausalLMHead, MaskedLMHead, Model, TransformerEncoder, preset, save_model
from spanlab.errors import InputError, MissingHeadError
from spanlab.inference.generation import generate
from spanlab.text.tokenizer import Tokenizer
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.cli.run import run_spanlab

TEXT = ["The miller sold flour to the baker, and the baker sold bread to the miller. Où est né Éloi?"] * 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXT, TokenizerConfig(kind="bpe", vocab_size=300, system="gpt"))


@pytest.fixture(scope="module")
def folder(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(5)
    path = tmp_path_factory.mktemp("gpt") / "model"
    encoder = TransformerEncoder(
        preset("gpt2", "tiny", vocab_size=tokenizer.vocab_size, max_positions=24, init_std=0.3)
    )
    save_model(path, encoder, {"clm": CausalLMHead(encoder.config)})
    tokenizer.save(path)
    return path


def parrot(tokenizer: Tokenizer, text: str) -> Model:
    """A model that has learnt one text by heart."""
    torch.manual_seed(0)
    ids = torch.tensor([[*map(int, tokenizer.encode(text).ids), tokenizer.sep_id]])
    encoder = TransformerEncoder(preset("gpt", "tiny", vocab_size=tokenizer.vocab_size).without_dropout())
    head = CausalLMHead(encoder.config)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=3e-3)
    for _ in range(60):
        logits = head(encoder(ids[:, :-1]).hidden, encoder.word_table)
        loss = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return Model(encoder, {"clm": head})


def test_a_learnt_text_is_continued_to_its_end(tokenizer: Tokenizer) -> None:
    whole = "The baker sold bread to the miller. Où est né Éloi?"
    model = parrot(tokenizer, whole)
    greedy = DecodingConfig(temperature=0.0)
    found = generate(model, tokenizer, ["The baker sold", "The baker sold bread to the miller. Où"], greedy)
    for one in found:
        assert one.full_text == whole
        assert one.text == whole.removeprefix(one.prompt)
        assert one.ended == "stop"
        assert tokenizer.decode(one.token_ids) == one.text
    assert found[0].log_probability > -5.0
    beams = generate(model, tokenizer, ["The baker"], DecodingConfig(temperature=0.0, beams=3))
    assert beams[0].full_text == whole


def test_results_are_plain_values(tokenizer: Tokenizer) -> None:
    one = generate(parrot(tokenizer, "The miller sold"), tokenizer, ["The"], DecodingConfig(max_new_tokens=2))[0]
    mapping = json.loads(json.dumps(one.to_dict()))
    assert set(mapping) == {"prompt", "text", "full_text", "token_ids", "ended", "log_probability"}
    assert mapping["full_text"] == mapping["prompt"] + mapping["text"]


def test_a_model_without_a_causal_head(tokenizer: Tokenizer) -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=tokenizer.vocab_size))
    with pytest.raises(MissingHeadError, match=r"no clm head \(it has mlm\): the model cannot generate text"):
        generate(Model(encoder, {"mlm": MaskedLMHead(encoder.config)}), tokenizer, ["The"])


def test_an_empty_text(tokenizer: Tokenizer) -> None:
    encoder = TransformerEncoder(preset("gpt", "tiny", vocab_size=tokenizer.vocab_size))
    with pytest.raises(InputError, match="the prompt has no tokens"):
        generate(Model(encoder, {"clm": CausalLMHead(encoder.config)}), tokenizer, [""])


def test_command_line(folder: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    arguments = ("generate", str(folder), "The miller", "--max-new-tokens", "5")
    drawn = run_spanlab(*arguments, "--seed", "3", "--temperature", "0.9", "--top-k", "40", "--json")
    assert drawn.returncode == 0, drawn.stderr
    result = json.loads(drawn.stdout)
    assert len(result["token_ids"]) == 5
    assert result["full_text"] == "The miller" + result["text"]
    assert result["text"] == tokenizer.decode(result["token_ids"])
    plain = run_spanlab(*arguments, "--seed", "3", "--temperature", "0.9", "--top-k", "40", "--no-cache")
    assert plain.stdout == result["full_text"] + "\n"
    long = run_spanlab("generate", str(folder), "The miller", "--beams", "2")
    assert long.returncode == 0
    assert "the model has no more positions" in long.stderr


def test_command_line_refusals(folder: Path, tmp_path: Path, tokenizer: Tokenizer) -> None:
    encoder = TransformerEncoder(preset("bert", "tiny", vocab_size=tokenizer.vocab_size))
    save_model(tmp_path / "bert", encoder)
    tokenizer.save(tmp_path / "bert")
    cases = [
        ((str(tmp_path / "bert"), "The"), "no clm head in"),
        ((str(folder), "The miller sold " * 20), "but the model has 24 positions"),
        ((str(folder), "The", "--temperature", "0", "--top-p", "0.5"), "temperature 0 is greedy search"),
    ]
    for arguments, message in cases:
        outcome = run_spanlab("generate", *arguments)
        assert (outcome.returncode, outcome.stdout) == (2, ""), outcome
        assert message in outcome.stderr
        assert outcome.stderr.count("\n") == 1
