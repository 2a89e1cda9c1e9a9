"""ELMo as an encoder: its parts by hand, padding that changes nothing, directions that look one way, its folder."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from spanlab.encoder import (
    BidirectionalLMHead,
    ElmoConfig,
    ElmoEncoder,
    Encoder,
    ScalarMixture,
    TransformerEncoder,
    elmo_preset,
    load_model,
    preset,
    save_model,
)
from spanlab.encoder.elmo.character_cnn import PADDING, CharacterCNN, Highway, word_characters
from spanlab.encoder.elmo.lstm import run_recurrence
from spanlab.errors import ConfigError, InputError, MissingHeadError, WeightsError
from tests.cli.run import run_spanlab

WORDS = ("<S>", "</S>", "<UNK>", "the", "miller", "sold", "flour", "Brot", "麵包", "incomprehensibilities", "x" * 80)
SHAPE = ElmoConfig(
    vocab_size=len(WORDS),
    character_width=5,
    filters=((1, 3), (2, 4), (7, 6)),
    cells=12,
    projection=8,
    dropout=0.0,
    clip=0.5,
)


@pytest.fixture
def elmo() -> ElmoEncoder:
    torch.manual_seed(3)
    model = ElmoEncoder(SHAPE, WORDS).eval()
    with torch.no_grad():
        model.mixture.weights.copy_(torch.tensor([0.3, -1.0, 0.7]))
        model.mixture.scale.fill_(1.7)
    return model


def test_the_character_network_by_hand() -> None:
    torch.manual_seed(0)
    network = CharacterCNN(261, 5, ((1, 3), (2, 4), (7, 6)), 2, 8, padding=PADDING).double()
    rows = torch.from_numpy(word_characters(WORDS).astype("int64"))
    vectors = network(rows)
    for word, row in enumerate(rows.tolist()):
        features = []
        for convolution in network.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            assert convolution.bias is not None
            span = convolution.kernel_size[0]
            for number in range(convolution.out_channels):
                best = -torch.inf
                for first in range(len(row) - span + 1):
                    window = torch.stack([network.characters.weight[c] for c in row[first : first + span]])
                    response = (convolution.weight[number] * window.T).sum() + convolution.bias[number]
                    best = max(best, response.item())
                features.append(max(best, 0.0))
        x = torch.tensor(features, dtype=torch.float64)
        for highway in network.highways:
            assert isinstance(highway, Highway)
            share = torch.sigmoid(highway.share.weight @ x + highway.share.bias)
            x = share * torch.relu(highway.change.weight @ x + highway.change.bias) + (1 - share) * x
        torch.testing.assert_close(vectors[word], network.projection.weight @ x + network.projection.bias)


def test_a_words_vector_does_not_depend_on_its_company() -> None:
    network = CharacterCNN(261, 5, ((1, 3), (7, 6)), 1, 8, padding=PADDING)
    with torch.no_grad():  # padding alone is what responds strongest, so a window too few would show
        network.characters.weight[PADDING] = 2.0
        for convolution in network.convolutions:
            convolution.weight.abs_()  # type: ignore[union-attr, operator]
    rows = torch.from_numpy(word_characters(WORDS).astype("int64"))
    together = network(rows)
    for number in range(len(WORDS)):
        torch.testing.assert_close(network(rows[number : number + 1])[0], together[number])


def test_the_mixture_is_the_published_formula() -> None:
    mixture = ScalarMixture(3)
    layers = [torch.randn(4, 6) for _ in range(3)]
    torch.testing.assert_close(mixture(layers), sum(layers, torch.zeros(4, 6)) / 3)
    with torch.no_grad():
        mixture.weights.copy_(torch.tensor([1.0, 2.0, -1.0]))
        mixture.scale.fill_(0.5)
    powers = torch.exp(mixture.weights)
    expected = 0.5 * (powers[0] * layers[0] + powers[1] * layers[1] + powers[2] * layers[2]) / powers.sum()
    torch.testing.assert_close(mixture(layers), expected)
    mixture(layers).sum().backward()
    assert mixture.weights.grad is not None


def test_the_whole_by_hand(elmo: ElmoEncoder) -> None:
    ids = [0, 3, 4, 5, 1]
    found = elmo(torch.tensor([ids]), output_hidden_states=True)
    assert found.hidden_states is not None
    words = elmo.words(elmo.characters[ids])
    directions = []
    for reader, way in ((elmo.forward_reader, words), (elmo.backward_reader, words.flip(0))):
        x, outputs = way, []
        for number, layer in enumerate(reader.layers):
            assert isinstance(layer.projection, Tensor)
            gates = nn.functional.linear(x, layer.input.weight, layer.input.bias)  # type: ignore[union-attr, arg-type]
            state = layer.initial_state(1)  # type: ignore[operator]
            out, _, _ = run_recurrence(
                gates,
                layer.recurrent,  # type: ignore[arg-type]
                layer.projection,
                state.hidden_BP,
                state.cell_BC,
                [1] * len(ids),
                0.5,
            )
            x = out if number == 0 else out + x
            outputs.append(x)
        directions.append(outputs)
    expected = [torch.cat([words, words], dim=1)]
    expected += [torch.cat([ahead, behind.flip(0)], dim=1) for ahead, behind in zip(*directions, strict=True)]
    for one, other in zip(found.hidden_states, expected, strict=True):
        torch.testing.assert_close(one[0], other)
    torch.testing.assert_close(found.hidden[0], elmo.mixture(expected))
    assert found.pooled is None
    assert found.attentions is None


def test_padded_packed_and_alone_are_the_same(elmo: ElmoEncoder) -> None:
    rows = [[0, 3, 4, 5, 6, 1], [0, 9, 1], [8], [0, 10, 2, 7, 1]]
    lengths = torch.tensor([len(row) for row in rows])
    packed = elmo(torch.tensor(sum(rows, start=[])), lengths=lengths).hidden  # noqa: RUF017
    width = int(lengths.max())
    padded_ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.arange(width) < lengths[:, None]
    padded = elmo(padded_ids, attention_mask=mask).hidden
    assert (padded[~mask] == 0).all()
    torch.testing.assert_close(padded[mask], packed)
    start = 0
    for row in rows:
        alone = elmo(torch.tensor([row])).hidden[0]
        torch.testing.assert_close(packed[start : start + len(row)], alone)
        start += len(row)


def test_a_direction_sees_its_own_side_alone(elmo: ElmoEncoder) -> None:
    """In double precision, where rounding stays far below 1e-12 and a leak far above it, whatever the CPU's kernels."""
    elmo, ids = elmo.double(), [0, 3, 4, 5, 6, 1]
    before = elmo(torch.tensor([ids]), output_hidden_states=True).hidden_states
    for changed in range(len(ids)):
        other = [*ids]
        other[changed] = 9
        after = elmo(torch.tensor([other]), output_hidden_states=True).hidden_states
        for layer in (1, 2):
            same = (before[layer][0] - after[layer][0]).abs() < 1e-12
            ahead, behind = same[:, : SHAPE.projection].all(1), same[:, SHAPE.projection :].all(1)
            assert ahead.tolist() == [place < changed for place in range(len(ids))]
            assert behind.tolist() == [place > changed for place in range(len(ids))]


def test_words_can_be_given_as_characters(elmo: ElmoEncoder) -> None:
    ids = torch.tensor([[3, 4, 9], [5, 6, 7]])
    characters = torch.from_numpy(word_characters([WORDS[i] for i in ids.flatten()]).astype("int64")).view(2, 3, -1)
    torch.testing.assert_close(elmo(characters=characters).hidden, elmo(ids).hidden)
    torch.testing.assert_close(
        elmo(characters=characters.flatten(0, 1), lengths=torch.tensor([3, 3])).hidden, elmo(ids).hidden.flatten(0, 1)
    )
    vectors = elmo.word_table[ids]
    torch.testing.assert_close(elmo(inputs_embeds=vectors).hidden, elmo(ids).hidden)
    unknown = torch.from_numpy(word_characters(["bread", "breads"]).astype("int64"))[None]
    assert not torch.equal(*elmo(characters=unknown).hidden[0])


def test_long_texts_are_no_obstacle(elmo: ElmoEncoder) -> None:
    assert elmo(torch.full((1, 600), 4)).hidden.shape == (1, 600, 16)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input_ids": torch.tensor([[11]])}, "input_ids holds 11, outside the vocabulary of 11"),
        ({}, "takes either input_ids or inputs_embeds"),
        (
            {"input_ids": torch.tensor([[1]]), "token_type_ids": torch.tensor([[0]])},
            "this elmo encoder has no segments",
        ),
        ({"input_ids": torch.tensor([[1]]), "position_ids": torch.tensor([[0]])}, "no position_ids; leave it out"),
        ({"input_ids": torch.tensor([[1]]), "output_attentions": True}, "no output_attentions"),
        (
            {"input_ids": torch.tensor([[1]]), "characters": torch.zeros(1, 1, 50, dtype=torch.int64)},
            "takes one of input_ids, characters",
        ),
        ({"input_ids": torch.tensor([[1, 2]]), "attention_mask": torch.tensor([[0, 0]])}, "has no token"),
    ],
)
def test_inputs_that_cannot_be_read(elmo: ElmoEncoder, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        elmo(**given)


def test_sizes() -> None:
    base = elmo_preset("base")
    assert (base.cells, base.projection, base.width, base.clip) == (4096, 512, 1024, 3.0)
    assert sum(count for _, count in base.filters) == 2048
    tiny = elmo_preset("tiny", vocab_size=100)
    assert (tiny.width, tiny.cells, tiny.vocab_size) == (128, 512, 100)
    with pytest.raises(ConfigError, match=r"unknown size 'tini' \(did you mean 'tiny'"):
        elmo_preset("tini")
    for changes, message in [
        ({"clip": 0.0}, "'clip' is 0.0"),
        ({"cells": 0}, "'cells' is 0"),
        ({"filters": ()}, "'filters' must be pairs"),
        ({"max_characters": 5}, "less than the widest filter"),
        ({"dropout": 1.0}, "'dropout' is 1.0"),
    ]:
        with pytest.raises(ConfigError, match=message):
            ElmoConfig(**changes)
    with pytest.raises(InputError, match="the vocabulary has 11 words and the config 100"):
        ElmoEncoder(tiny, WORDS)


def test_the_folder_comes_back_bit_by_bit(elmo: ElmoEncoder, tmp_path: Path) -> None:
    head = BidirectionalLMHead(elmo.config)
    save_model(tmp_path / "one", elmo, {"bilm": head}, system="elmo")
    loaded = load_model(tmp_path / "one")
    assert isinstance(loaded.encoder, ElmoEncoder)
    assert loaded.encoder.elmo_config == SHAPE
    assert loaded.report.unexpected == ()
    save_model(tmp_path / "two", loaded.encoder, loaded.heads, system="elmo")
    for name in ("model.safetensors", "heads.safetensors", "config.json", "spanlab.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    ids = torch.tensor([[0, 3, 4, 5, 1]])
    assert torch.equal(loaded.encoder.eval()(ids).hidden, elmo(ids).hidden)
    again = loaded.head("bilm")
    assert torch.equal(again(torch.ones(1, 8)), head(torch.ones(1, 8)))
    assert isinstance(ElmoEncoder.from_pretrained(tmp_path / "one"), ElmoEncoder)
    assert isinstance(Encoder.from_pretrained(tmp_path / "one"), ElmoEncoder)
    with pytest.raises(MissingHeadError, match="cannot generate text"):
        loaded.head("clm")


def test_damaged_folders(elmo: ElmoEncoder, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(folder, elmo)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "encoder": {**config["encoder"], "cels": 3}}))
    with pytest.raises(ConfigError, match=r"config.json: unknown key 'cels' \(did you mean 'cells'"):
        load_model(folder)
    (folder / "config.json").write_text(json.dumps({**config, "encoder": {**config["encoder"], "cells": 13}}))
    with pytest.raises(WeightsError, match="but the config says"):
        load_model(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "spanlab-elmo"}))
    with pytest.raises(ConfigError, match="the section 'encoder' is missing"):
        load_model(folder)
    save_model(folder, TransformerEncoder(preset("bert", "tiny", vocab_size=20)))
    with pytest.raises(InputError, match="a bert encoder; expected ElmoEncoder"):
        ElmoEncoder.from_pretrained(folder)


def test_inspect_model(elmo: ElmoEncoder, tmp_path: Path) -> None:
    save_model(tmp_path / "model", elmo, {"bilm": BidirectionalLMHead(elmo.config)})
    shown = run_spanlab("inspect", "model", str(tmp_path / "model"), "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    parameters = sum(p.numel() for p in elmo.parameters()) + len(WORDS) * (SHAPE.projection + 1)
    assert found["parameters"]["total"] == parameters
    assert found["config"]["cells"] == 12
    plain = run_spanlab("inspect", "model", str(tmp_path / "model"))
    assert "2 layers x 16, 12 cells" in plain.stdout
