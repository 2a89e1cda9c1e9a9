"""Filling masks: the heads' own probabilities, the law of the joint filling, and what is refused."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from spanlab.encoder import Electra, Model, SpanBoundaryHead, load_model, preset
from spanlab.errors import InputError, MissingHeadError
from spanlab.inference.fill import Filler, fill_jointly
from spanlab.inference.fill_result import Candidate, FillResult
from spanlab.inference.masked_text import TokenSpan
from spanlab.text import Tokenizer
from tests.inference.models import KINDS, make_folder, make_tokenizer, shake

TEXT = "The old [MASK] [MASK] his nets, and [MASK] asked."


def probabilities(candidates: tuple[Candidate, ...] | None) -> dict[str, float]:
    assert candidates is not None
    return {candidate.token: candidate.probability for candidate in candidates}


def special_tokens(tokenizer: Tokenizer) -> set[str]:
    return {tokenizer.vocabulary[number] for number in tokenizer.special_ids}


@pytest.mark.parametrize("system", KINDS)
def test_mlm_probabilities_are_those_of_transformers(system: str, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    tokenizer = make_tokenizer(system)
    classes = {"bert": "Bert", "roberta": "Roberta", "albert": "Albert", "electra": "Electra"}
    settings: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings |= {"intermediate_size": 64, "vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id}
    model = getattr(hf, f"{classes[system]}ForMaskedLM")(getattr(hf, f"{classes[system]}Config")(**settings)).eval()
    shake(model)
    model.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)

    theirs = hf.AutoTokenizer.from_pretrained(tmp_path)
    # transformers leaves a space token before a mask that does not name itself as one that takes it away.
    written = TEXT.replace(" [MASK]", theirs.mask_token)
    ids = theirs(written, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits[0, (ids[0] == theirs.mask_token_id).nonzero().squeeze(1)]
    expected = logits.softmax(-1)

    result = Filler(tmp_path, device="cpu").fill(TEXT, top=tokenizer.vocab_size)
    places = [place for run in result.runs for place in run.places]
    assert len(places) == len(expected) == 3
    for place, row in zip(places, expected, strict=True):
        found = probabilities(place.mlm)
        wanted = {token: row[number].item() for number, token in enumerate(tokenizer.vocabulary)}
        assert set(found) == set(wanted) - special_tokens(tokenizer)
        assert found == pytest.approx({token: wanted[token] for token in found}, rel=1e-4, abs=1e-9)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert place.sbo is None
    assert "no sbo head" in result.notes[0]
    assert set(result.runs[0].fillings) == {"mlm"}


@pytest.mark.parametrize(
    "options",
    [{}, {"boundaries": "internal", "max_span": None}, {"combine": "sum", "max_span": 1, "activation": "relu"}],
    ids=str,
)
def test_sbo_probabilities_are_the_heads_at_the_boundaries(options: dict[str, Any], tmp_path: Path) -> None:
    folder = make_folder(tmp_path, sbo=options)
    model, tokenizer = load_model(folder), Tokenizer.load(folder)
    result = Filler(folder, device="cpu").fill(TEXT, top=1000)
    ids = [tokenizer.cls_id, *tokenizer.encode(TEXT).ids.tolist(), tokenizer.sep_id]
    first = ids.index(tokenizer.mask_id)
    head = model.head("sbo")
    assert isinstance(head, SpanBoundaryHead)
    with torch.no_grad():
        hidden = model.encoder.eval()(torch.tensor([ids])).hidden[0]
        left, right = (first - 1, first + 2) if options.get("boundaries") != "internal" else (first, first + 1)
        for number, place in enumerate(result.runs[0].places):
            if options.get("max_span") == 1 and number == 1:
                assert place.sbo is None
                continue
            logits = head(hidden[[left]], hidden[[right]], torch.tensor([number]), model.encoder.word_table)
            row = logits.softmax(-1)[0]
            found = probabilities(place.sbo)
            assert found == pytest.approx(
                {token: row[tokenizer.vocabulary.index(token)].item() for token in found}, rel=1e-4
            )
    too_deep = options.get("max_span") == 1
    assert bool(result.runs[0].notes) is too_deep
    assert not too_deep or "spans of up to 1 tokens" in result.runs[0].notes[0]
    assert set(result.runs[0].fillings) == {"mlm", "mlm+sbo"}


def test_a_wide_beam_finds_what_trying_everything_finds() -> None:
    vocab, span = 6, TokenSpan(first=1, last=3)
    table = torch.randn(vocab, vocab, vocab, generator=torch.Generator().manual_seed(1)) * 2
    allowed = torch.tensor([True, True, False, True, True, True])

    def next_token(rows: torch.Tensor, rest: TokenSpan) -> torch.Tensor:
        assert rest.last == span.last
        assert (rows[:, rest.first : rest.last + 1] == 2).all()  # still masked
        return table[rows[:, rest.first - 1], rest.first].log_softmax(-1)

    row = torch.tensor([0, 2, 2, 2, 5])
    found = fill_jointly(row, span, next_token, allowed, width=vocab**3)
    scores = {}
    for filling in product([0, 1, 3, 4, 5], repeat=3):
        chain = zip((0, *filling), filling, range(1, 4), strict=False)
        scores[filling] = sum(table[before, place].log_softmax(-1)[now].item() for before, now, place in chain) / 3
    best_first = sorted(scores, key=scores.__getitem__, reverse=True)
    assert [one.ids for one in found] == best_first
    assert [one.score for one in found] == pytest.approx([scores[filling] for filling in best_first], rel=1e-5)
    narrow = fill_jointly(row, span, next_token, allowed, width=2)
    assert len(narrow) == 2
    assert all(one.score == pytest.approx(scores[one.ids], rel=1e-5) for one in narrow)
    assert row.tolist() == [0, 2, 2, 2, 5]


@pytest.mark.parametrize("law", ["mlm", "mlm+sbo"])
def test_fillings_are_scored_in_sight_of_what_is_filled_in(law: str, tmp_path: Path) -> None:
    """The score of a filling of two masks, computed anew from results of single masks."""
    folder = make_folder(tmp_path, sbo={})
    model, tokenizer = load_model(folder), Tokenizer.load(folder)
    filling = Filler(folder, device="cpu").fill("The old [MASK] [MASK] his nets", top=3).runs[0].fillings[law][2]  # type: ignore[index]
    ids = [tokenizer.cls_id, *tokenizer.encode("The old[MASK][MASK] his nets").ids.tolist(), tokenizer.sep_id]
    first = ids.index(tokenizer.mask_id)
    logs = []
    for number, token in enumerate(filling.tokens):
        with torch.no_grad():
            hidden = model.encoder.eval()(torch.tensor([ids])).hidden[0]
            mlm = model.head("mlm")(hidden[[first + number]], model.encoder.word_table).log_softmax(-1)[0]
            edges = hidden[[first + number - 1]], hidden[[first + 2]]
            sbo = model.head("sbo")(*edges, torch.tensor([0]), model.encoder.word_table).log_softmax(-1)[0]
        both = ((mlm + sbo) / 2).log_softmax(-1)
        ids[first + number] = tokenizer.vocabulary.index(token)
        logs.append((mlm if law == "mlm" else both)[ids[first + number]].item())
    assert filling.score == pytest.approx(sum(logs) / 2, rel=1e-4)


def test_offsets_are_those_of_the_users_text(tmp_path: Path) -> None:
    text = "  [MASK] old [MASK]  [MASK],\n[MASK]"
    result = Filler(make_folder(tmp_path, sbo={}), device="cpu").fill(text, top=2)
    assert [(run.start, run.end) for run in result.runs] == [(2, 8), (13, 27), (29, 35)]
    for run in result.runs:
        assert all(text[place.start : place.end] == "[MASK]" for place in run.places)
    assert result.text == text
    assert "[MASK]" not in result.filled
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()


def test_masks_may_be_written_as_the_tokenizer_writes_them(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    tokenizer = make_tokenizer("roberta")
    config = hf.RobertaConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
    )
    hf.RobertaForMaskedLM(config).save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    filler = Filler(tmp_path, device="cpu")
    ours, theirs = filler.fill("The [MASK] old, [MASK]"), filler.fill("The <mask> old, <mask>")
    assert [run.places[0].mlm for run in ours.runs] == [run.places[0].mlm for run in theirs.runs]
    assert [(run.start, run.end) for run in theirs.runs] == [(4, 10), (16, 22)]


def test_electra_fills_by_its_generator(tmp_path: Path) -> None:
    tokenizer = make_tokenizer("electra")
    pair = Electra.build(preset("electra", "tiny", vocab_size=tokenizer.vocab_size, layers=1))
    pair.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    from_pair = Filler(tmp_path, device="cpu").fill("The [MASK] nets")
    directly = Filler(tmp_path / "generator", device="cpu").fill("The [MASK] nets")
    assert "generator" in from_pair.notes[0]
    assert from_pair.runs == directly.runs


def test_a_model_in_memory_goes_on_training(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, sbo={})
    model: Model = load_model(folder)
    model.encoder.train()
    model.head("mlm").eval()
    filler = Filler.from_model(model, Tokenizer.load(folder))
    first: FillResult = filler.fill(TEXT)
    assert first == filler.fill(TEXT) == Filler(folder, device="cpu").fill(TEXT)  # no dropout
    assert model.encoder.embeddings.dropout.training
    assert not model.head("mlm").training
    assert all(parameter.grad is None for parameter in model.encoder.parameters())
    shake(model.encoder)
    assert filler.fill(TEXT).runs != first.runs


def test_a_word_table_with_more_rows_than_tokens(tmp_path: Path) -> None:
    """Rows that no token has are never offered."""
    folder = make_folder(tmp_path)
    tokenizer = make_tokenizer()
    described = json.loads((folder / "tokenizer.json").read_text())
    gone = described["model"]["vocab"].popitem()[0]
    (folder / "tokenizer.json").write_text(json.dumps(described))
    (folder / "vocab.txt").unlink()
    result = Filler(folder, device="cpu").fill("The [MASK] nets", top=1000)
    assert len(result.runs[0].places[0].mlm) == tokenizer.vocab_size - len(tokenizer.special_ids) - 1
    assert gone not in probabilities(result.runs[0].places[0].mlm)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no mask at all", r"no mask; write \[MASK\]"),
        ("", "no mask"),
        ("The [mask] nets", "no mask"),
        ("[MASK] nets " + "old " * 80, "[0-9]+ tokens, special ones included, and the model takes 64"),
        ("[MASK] \ud800", "surrogate"),
    ],
)
def test_texts_that_cannot_be_filled(text: str, message: str, tmp_path: Path) -> None:
    filler = Filler(make_folder(tmp_path), device="cpu")
    with pytest.raises(InputError, match=message):
        filler.fill(text)


def test_models_that_cannot_fill(tmp_path: Path, minilm: Path) -> None:
    with pytest.raises(MissingHeadError, match=r"no mlm head .*\(it has sbo\): the model cannot fill masks"):
        Filler(make_folder(tmp_path, sbo={}, mlm=False), device="cpu")
    with pytest.raises(MissingHeadError, match="the model cannot fill masks"):
        Filler(minilm, device="cpu")
    with pytest.raises(InputError, match="at least 1"):
        Filler(make_folder(tmp_path), device="cpu").fill("The [MASK]", top=0)
