"""Greedy search, sampling and beam search: the same tokens as transformers, with a cache and without."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from spanlab.decoding.config import Decoded, DecodingConfig
from spanlab.decoding.generate import generate_ids
from spanlab.decoding.sampling import choose, restrict
from spanlab.encoder import CausalLMHead, Encoder, Model, TransformerEncoder, load_model, preset
from spanlab.errors import ConfigError, InputError
from tests.parity.models import CASES, VOCAB

PROMPTS = [[5, 6, 7, 8, 9], [10], [11, 12, 13], [14, 15, 16]]
CLASSES = {"gpt2": "GPT2LMHeadModel", "openai-gpt": "OpenAIGPTLMHeadModel"}


@pytest.fixture(scope="module", params=list(CLASSES))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Model]:
    """A random model there, and the same here; logits are far enough apart that rounding decides nothing."""
    theirs = CASES[request.param].build(CLASSES[request.param]).eval()
    with torch.no_grad():
        theirs.base_model.get_input_embeddings().weight.mul_(3.0)
    folder = tmp_path_factory.mktemp(request.param)
    theirs.save_pretrained(folder)
    return theirs, load_model(folder)


def ours(model: Model, prompts: list[list[int]], *, use_cache: bool = True, **options: Any) -> list[Decoded]:
    head = model.head("clm")
    assert isinstance(head, CausalLMHead)
    return generate_ids(model.encoder, head, prompts, DecodingConfig(**options), use_cache=use_cache)


def theirs_alone(model: Any, prompt: list[int], **options: Any) -> list[int]:
    """What transformers adds to one prompt, its end token left off."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **{"eos_token_id": None, **options}
    )
    new: list[int] = out[0, len(prompt) :].tolist()
    stop = options.get("eos_token_id")
    return new[: new.index(stop)] if stop in new else new


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_search_gives_the_tokens_of_transformers(pair: tuple[Any, Model], use_cache: bool) -> None:
    theirs, model = pair
    decoded = ours(model, PROMPTS, use_cache=use_cache, temperature=0.0, max_new_tokens=20)
    for prompt, one in zip(PROMPTS, decoded, strict=True):
        assert list(one.ids) == theirs_alone(theirs, prompt, max_new_tokens=20)
        assert one.ended == "length"


def test_a_stop_token_ends_one_sequence_and_not_the_others(pair: tuple[Any, Model]) -> None:
    theirs, model = pair
    free = ours(model, PROMPTS, temperature=0.0, max_new_tokens=20)
    stop = free[2].ids[4]
    decoded = ours(model, PROMPTS, temperature=0.0, max_new_tokens=20, stop_ids=(stop,))
    assert decoded[2].ended == "stop"
    assert len(decoded[2].ids) <= 4
    for prompt, one, whole in zip(PROMPTS, decoded, free, strict=True):
        assert list(one.ids) == theirs_alone(theirs, prompt, max_new_tokens=20, eos_token_id=stop)
        assert one.ids == whole.ids[: len(one.ids)]
        assert (one.ended == "stop") == (stop in whole.ids)


@pytest.mark.parametrize(("beams", "penalty"), [(2, 1.0), (3, 0.0), (4, 2.0), (5, -1.0)])
def test_beam_search_gives_the_tokens_of_transformers(pair: tuple[Any, Model], beams: int, penalty: float) -> None:
    theirs, model = pair
    stop = ours(model, PROMPTS, temperature=0.0, max_new_tokens=12)[0].ids[2]
    options: dict[str, Any] = {"max_new_tokens": 8, "length_penalty": penalty}
    prompts = [*PROMPTS, *([first, 5] for first in range(20, 44))]
    expected = [theirs_alone(theirs, prompt, num_beams=beams, eos_token_id=stop, **options) for prompt in prompts]
    for use_cache in (True, False):
        decoded = ours(model, prompts, use_cache=use_cache, temperature=0.0, beams=beams, stop_ids=(stop,), **options)
        assert [list(one.ids) for one in decoded] == expected


def test_beams_for_every_token_find_the_likeliest_pair(pair: tuple[Any, Model]) -> None:
    theirs, model = pair
    with torch.no_grad():
        first = theirs(torch.tensor([PROMPTS[0]])).logits[0, -1].log_softmax(-1)
        everything = torch.tensor([[*PROMPTS[0], token] for token in range(VOCAB)])
        pairs = first[:, None] + theirs(everything).logits[:, -1].log_softmax(-1)
    best = int(pairs.argmax())
    found = ours(model, PROMPTS[:1], temperature=0.0, max_new_tokens=2, beams=VOCAB, length_penalty=0.0)[0]
    assert found.ids == (best // VOCAB, best % VOCAB)
    assert found.log_probability == pytest.approx(float(pairs.max()), abs=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_log_probability_is_the_models(pair: tuple[Any, Model], beams: int) -> None:
    theirs, model = pair
    for prompt, one in zip(PROMPTS, ours(model, PROMPTS, temperature=0.0, max_new_tokens=6, beams=beams), strict=True):
        ids = torch.tensor([[*prompt, *one.ids]])
        with torch.no_grad():
            scores = theirs(ids).logits[0].log_softmax(-1)
        places = range(len(prompt), ids.shape[1])
        expected = sum(float(scores[place - 1, ids[0, place]]) for place in places)
        assert one.log_probability == pytest.approx(expected, abs=1e-3)


def test_sampling_is_a_function_of_seed_prompt_and_place(pair: tuple[Any, Model]) -> None:
    _, model = pair
    options: dict[str, Any] = {"max_new_tokens": 12, "temperature": 3.0, "top_p": 0.95}
    first = ours(model, PROMPTS, seed=1, **options)
    assert first == ours(model, PROMPTS, seed=1, **options)
    assert [one.ids for one in first] == [one.ids for one in ours(model, PROMPTS, seed=1, use_cache=False, **options)]
    assert [one.ids for one in first] != [one.ids for one in ours(model, PROMPTS, seed=2, **options)]
    assert first[0].ids == ours(model, PROMPTS[:1], seed=1, **options)[0].ids
    same_prompt = ours(model, [[5, 6]] * 6, seed=1, **options)
    assert len({one.ids for one in same_prompt}) > 1


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([0.3, 1.0, 2.5]),
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.floats(0.05, 1.0)),
)
def test_top_k_and_top_p_leave_what_transformers_leaves(
    seed: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    logits = 3 * torch.randn(4, 31, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = TemperatureLogitsWarper(temperature)(None, logits) if temperature != 1.0 else logits
    if top_k is not None:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p is not None and top_p < 1.0:
        expected = TopPLogitsWarper(top_p)(None, expected)
    found = restrict(logits / temperature, top_k=top_k, top_p=top_p)
    torch.testing.assert_close(found / found.sum(-1, keepdim=True), expected.softmax(-1))


def test_draws_follow_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).expand(20_000, 4)
    config = DecodingConfig(temperature=2.0, top_k=3)
    drawn = choose(logits, config, range(20_000), 0)
    expected = (torch.tensor([0.0, 1.0, 2.0]) / 2.0).softmax(-1)
    counts = drawn.bincount(minlength=4)
    assert counts[3] == 0
    torch.testing.assert_close(counts[:3] / 20_000, expected, atol=0.015, rtol=0.0)


def small_model(positions: int = 8) -> tuple[Encoder, CausalLMHead]:
    config = preset("gpt2", "tiny", vocab_size=40, max_positions=positions)
    return TransformerEncoder(config), CausalLMHead(config)


@pytest.mark.parametrize("beams", [1, 2])
def test_the_last_position_ends_a_text_and_says_so(beams: int) -> None:
    encoder, head = small_model(positions=8)
    config = DecodingConfig(max_new_tokens=30, temperature=0.0, beams=beams)
    decoded = generate_ids(encoder, head, [[1, 2, 3], [4] * 8], config)
    assert [one.ended for one in decoded] == ["positions", "positions"]
    assert [len(one.ids) for one in decoded] == [6, 1]


def test_prompts_that_cannot_be_continued() -> None:
    encoder, head = small_model(positions=8)
    config = DecodingConfig()
    assert generate_ids(encoder, head, [], config) == []
    with pytest.raises(InputError, match="the prompt has no tokens; give some text"):
        generate_ids(encoder, head, [[]], config)
    with pytest.raises(InputError, match="prompt 1 has 9 tokens, but the model has 8 positions; shorten it"):
        generate_ids(encoder, head, [[1], [2] * 9], config)
    with pytest.raises(InputError, match="input_ids holds 40, outside the vocabulary"):
        generate_ids(encoder, head, [[40]], config)
    bert = TransformerEncoder(preset("bert", "tiny", vocab_size=40))
    with pytest.raises(InputError, match="is not causal, so it cannot generate"):
        generate_ids(bert, CausalLMHead(bert.config), [[1]], config)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "'max_new_tokens' is 0"),
        ({"temperature": -1.0}, "'temperature' is -1.0"),
        ({"temperature": float("nan")}, "'temperature' is nan"),
        ({"top_k": 0}, "'top_k' is 0"),
        ({"top_p": 0.0}, "'top_p' is 0.0"),
        ({"top_p": 1.5}, "'top_p' is 1.5"),
        ({"temperature": 0.0, "top_k": 3}, "temperature 0 is greedy search"),
        ({"beams": 2}, "beam search does not sample; set temperature to 0"),
    ],
)
def test_settings_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DecodingConfig(**options)
