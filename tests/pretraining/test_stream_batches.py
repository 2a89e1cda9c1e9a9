"""Runs over continuous streams: which blocks a step takes, what is held out, and that a run goes on to the bit."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spanlab.corpus import PreparedCorpus
from spanlab.encoder import CausalLMHead, ElmoEncoder, XLNetEncoder, load_model
from spanlab.errors import ConfigError, InputError
from spanlab.pretraining.build import WeightedCorpus, build_training_spec
from spanlab.pretraining.evaluation import HeldOut
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.pretraining.stream_batches import StreamData
from spanlab.text.special_tokens import System
from spanlab.text.tokenizer import Kind
from spanlab.training.distributed import current_process
from spanlab.training.records import Record
from spanlab.workflows.pretrain import PretrainingJob, run_job
from tests.pretraining.making import make_tokenizer, prepare, write_text

KINDS: dict[System, Kind] = {"xlnet": "unigram", "gpt": "bpe", "elmo": "word"}
BODY = ["encoder.layers=1", "encoder.width=32", "encoder.heads=2", "encoder.inner_width=128"]
SMALL = {
    "xlnet": [
        *BODY,
        *("data.length=24", "data.reuse=12", "data.memory=16", "data.held_out=0.15"),
        "masking.permutation.predictions=5",
    ],
    "gpt": [*BODY, "data.length=24", "data.held_out=0.15"],
    "elmo": ["encoder.projection=16", "encoder.cells=32", "encoder.layers=1", "data.length=8", "data.held_out=0.1"],
}
TRAINING = [
    *("training.batch_size=4", "training.optimiser=adamw", "training.lr=0.003", "training.schedule=constant"),
    *("training.warmup=0", "training.precision=fp32", "training.threads=1", "training.device=cpu"),
]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same text in the tokens of each system."""
    folder = tmp_path_factory.mktemp("streams")
    text = write_text(folder / "text.txt")
    tokenizers = {name: make_tokenizer(text, kind, 300, system=name) for name, kind in KINDS.items()}
    return {name: prepare(text, tokenizer, folder / name) for name, tokenizer in tokenizers.items()}


def recipe_of(name: str, *overrides: str) -> Recipe:
    return load_recipe(name, ["size=tiny", *TRAINING, *SMALL[name], *overrides])


def data_of(name: str, corpora: dict[str, Path], *overrides: str) -> StreamData:
    return StreamData(PreparedCorpus.open(corpora[name]), recipe_of(name, *overrides))


@pytest.mark.parametrize("name", ["xlnet", "elmo"])
def test_a_step_takes_the_next_block_of_every_stream_and_streams_begin_again(
    name: str, corpora: dict[str, Path]
) -> None:
    data = data_of(name, corpora)
    steps = int(data.steps_per_epoch)
    for number in (0, 1, steps - 1, steps, steps + 1):
        (batch,) = data.step(number, rank=0, world_size=1)
        assert batch.streams == 4
        assert np.unique(batch.indices).tolist() == [number % steps * 4 + column for column in range(4)]
    assert data.epoch(steps * 3) == 3.0


@pytest.mark.parametrize(("parts", "accumulate"), [(2, 1), (1, 2), (2, 2), (1, 3)])
def test_processes_and_micro_batches_keep_to_their_streams(
    parts: int, accumulate: int, corpora: dict[str, Path]
) -> None:
    data = data_of("xlnet", corpora, f"training.accumulate={accumulate}")
    taken = [
        [
            [(batch.indices % 4).tolist() for batch in data.step(number, rank=part, world_size=parts)]
            for part in range(parts)
        ]
        for number in range(3)
    ]
    assert all(one == other for one, other in pairwise(taken))
    assert sorted(column for part in taken[0] for micro in part for column in micro) == [0, 1, 2, 3]
    assert all(len(part) == accumulate for part in taken[0])


@pytest.mark.parametrize("name", ["xlnet", "elmo"])
def test_no_token_that_is_held_out_is_trained_on(name: str, corpora: dict[str, Path]) -> None:
    """Held out are the ends of streams, in both directions: the blocks of either part lie in its own text alone."""
    data = data_of(name, corpora)
    assert data.held_out is not None
    training, held_out = data._training, data.held_out._examples
    starts, stops = training.text_ranges()
    held_starts, held_stops = held_out.text_ranges()
    assert np.array_equal(stops, held_starts)
    assert (starts < stops).all()
    assert (held_starts < held_stops).all()
    assert (held_stops[:-1] <= starts[1:]).all()
    share = (held_stops - held_starts).sum() / training.corpus.counts.tokens
    assert share == pytest.approx(training.recipe.data.held_out, abs=0.01)
    for examples in (training, held_out):
        first, last = examples.text_ranges()
        inside = [examples.corpus.read([a], [b]).ids for a, b in zip(first, last, strict=True)]
        known = Counter(np.concatenate(inside).tolist())
        once = examples.blocks.batch(np.arange(len(examples)))
        special = set(examples.corpus.tokenizer.special_ids)
        assert {int(token) for token in once.ids} - special <= set(known)
        assert (examples.blocks.first_tokens() >= first.min()).all()
        assert (examples.blocks.first_tokens() < last.max()).all()


def test_a_batch_is_described_with_its_order(corpora: dict[str, Path]) -> None:
    data = data_of("xlnet", corpora)
    (batch,) = data.step(0, rank=0, world_size=1)
    described = data.describe(batch)
    assert all(isinstance(array, np.ndarray) for array in described.values())
    assert {"input_ids", "targets", "order.rank", "order.visible_below", "order.backward"} <= set(described)


@pytest.mark.parametrize("name", ["xlnet", "gpt", "elmo"])
def test_the_unigram_loss_is_that_of_the_tokens_a_run_learns_from(name: str, corpora: dict[str, Path]) -> None:
    recipe = recipe_of(name, "training.steps=1")
    work, _ = build_training_spec(recipe, [WeightedCorpus.parse(str(corpora[name]))], None)
    evaluate = work.evaluate
    assert isinstance(evaluate, HeldOut)
    counts = Counter({token: int(count) for token, count in enumerate(evaluate._samples.training_counts())})
    seen: Counter[int] = Counter()
    for number in range(math.ceil(work.data.steps_per_epoch)):
        for batch in work.data.step(number, rank=0, world_size=1):
            seen.update(batch.targets.tolist())
    total, all_seen = counts.total(), seen.total()
    for token, count in seen.most_common(12):  # the marks between sentences of ELMo are among them
        # Orders of blocks as short as these prefer short words a little.
        assert counts[token] / total == pytest.approx(count / all_seen, abs=0.05 if name == "xlnet" else 0.01)
    process = current_process("cpu", "fp32")
    work.criterion.eval()
    with torch.no_grad():
        scores = evaluate(process)
    objective = next(iter(recipe.objectives))
    assert 1.0 < scores[f"unigram.{objective}"] < math.log(300)
    assert scores["loss"] == pytest.approx(scores[f"loss.{objective}"])


def run(name: str, data: Path, out: Path, *overrides: str, stop_at: int | None = None, resume: bool = False) -> None:
    settings = ["training.steps=14", "training.save_every=5", "training.eval_every=4", *overrides]
    asked = PretrainingJob(recipe=recipe_of(name, *settings), data=(str(data),), out=str(out), resume=resume)

    def interrupt(record: Record) -> None:
        if record.step == stop_at and record.split == "train":
            raise RuntimeError("the power went")

    run_job(asked, on_record=interrupt)


def losses_of(out: Path) -> dict[tuple[int, str], float]:
    """The last record of each step and split."""
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return {(line["step"], line["split"]): line["loss"] for line in lines if "loss" in line}


@pytest.mark.parametrize("name", ["xlnet", "gpt", "elmo"])
def test_a_run_that_was_cut_off_goes_on_to_the_bit(name: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    run(name, corpora[name], tmp_path / "whole")
    with pytest.raises(RuntimeError, match="the power went"):
        run(name, corpora[name], tmp_path / "cut", stop_at=8)
    run(name, corpora[name], tmp_path / "cut", resume=True)
    assert losses_of(tmp_path / "cut") == losses_of(tmp_path / "whole")
    assert max(step for step, _ in losses_of(tmp_path / "cut")) == 14
    files = [(tmp_path / which / "model" / "model.safetensors").read_bytes() for which in ("whole", "cut")]
    assert files[0] == files[1]


@pytest.mark.parametrize("name", ["xlnet", "elmo"])
def test_what_is_carried_matters_and_evaluation_leaves_it_alone(
    name: str, corpora: dict[str, Path], tmp_path: Path
) -> None:
    """Losses of steps do not depend on how often a run is evaluated, but they do on what earlier steps left."""
    run(name, corpora[name], tmp_path / "often", "training.eval_every=1")
    run(name, corpora[name], tmp_path / "seldom", "training.eval_every=14")
    often, seldom = (
        {step: loss for (step, split), loss in losses_of(tmp_path / which).items() if split == "train"}
        for which in ("often", "seldom")
    )
    assert often == seldom
    recipe = recipe_of(name, "training.steps=2")
    work, _ = build_training_spec(recipe, [WeightedCorpus.parse(str(corpora[name]))], None)
    criterion: Any = work.criterion.eval()
    batches = [work.data.to_device(work.data.step(n, rank=0, world_size=1)[0], torch.device("cpu")) for n in (0, 1)]
    with torch.no_grad():
        criterion(batches[0])
        after = criterion(batches[1]).value.item()
        alone = criterion(batches[1]).value.item()  # nothing goes on from step 1 with step 1
    assert after != alone


@pytest.mark.parametrize("name", ["xlnet", "gpt", "elmo"])
def test_it_learns_and_its_folder_loads(name: str, corpora: dict[str, Path], tmp_path: Path) -> None:
    run(name, corpora[name], tmp_path / "run", "training.steps=60", "training.eval_every=30", "training.save_every=60")
    losses = losses_of(tmp_path / "run")
    assert losses[60, "dev"] < losses[30, "dev"] < losses[1, "train"]
    loaded = load_model(tmp_path / "run" / "model")
    (objective,) = recipe_of(name).objectives
    assert list(loaded.heads) == [objective]
    if name == "elmo":
        assert isinstance(loaded.encoder, ElmoEncoder)
        return
    transformers = pytest.importorskip("transformers")
    kind = transformers.XLNetLMHeadModel if name == "xlnet" else transformers.OpenAIGPTLMHeadModel
    theirs, report = kind.from_pretrained(tmp_path / "run" / "model", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ids = torch.arange(10, 20)[None]
    with torch.no_grad():
        expected = (theirs.transformer(ids).last_hidden_state, loaded.encoder.eval()(ids).hidden)
    torch.testing.assert_close(*expected, rtol=0, atol=1e-5)


def test_a_gpt_that_no_class_of_transformers_can_hold_keeps_its_head(corpora: dict[str, Path], tmp_path: Path) -> None:
    run("gpt", corpora["gpt"], tmp_path / "run", "training.steps=2", "encoder.inner_width=64")
    loaded = load_model(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "model" / "config.json").read_text())["model_type"] == "spanlab"
    assert isinstance(loaded.head("clm"), CausalLMHead)


def test_an_xlnet_goes_on_from_a_folder_with_another_memory(corpora: dict[str, Path], tmp_path: Path) -> None:
    run("xlnet", corpora["xlnet"], tmp_path / "first", "training.steps=2")
    recipe = recipe_of("xlnet", "training.steps=1", "data.memory=8")
    corpus = WeightedCorpus.parse(str(corpora["xlnet"]))
    work, beginning = build_training_spec(recipe, [corpus], str(tmp_path / "first"))
    encoder = work.criterion.encoder
    assert isinstance(encoder, XLNetEncoder)
    assert (encoder.config.memory, encoder.config.reuse) == (8, 12)
    assert beginning.notes == ()


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("xlnet", "data.streams=2", r"data\.streams is 2, but training\.batch_size is 4"),
        ("elmo", "data.phases=[[1.0, 8]]", "data.phases cannot be used with recurrent streams"),
        ("elmo", "training.batch_warmup=0.1", "training.batch_warmup cannot be used with recurrent streams"),
        ("xlnet", "data.held_out=0.001", "held out of each of 2 streams do not fill a sample of 24"),
        ("xlnet", "training.batch_size=5", "5 streams cannot be read half forwards"),
        ("xlnet", "training.accumulate=5", "a batch of 4 samples cannot be split"),
    ],
)
def test_what_would_break_streams_off_is_refused(
    name: str, override: str, message: str, corpora: dict[str, Path]
) -> None:
    with pytest.raises((ConfigError, InputError), match=message):
        build_training_spec(
            recipe_of(name, "training.steps=1", override), [WeightedCorpus.parse(str(corpora[name]))], None
        )


@pytest.mark.parametrize(
    ("name", "other", "words"),
    [("xlnet", "gpt", "the class token does not come last"), ("elmo", "xlnet", "train a tokenizer with --type word")],
)
def test_tokens_of_another_system_are_told_of(name: str, other: str, words: str, corpora: dict[str, Path]) -> None:
    recipe = recipe_of(name, "training.steps=1")
    _, beginning = build_training_spec(recipe, [WeightedCorpus.parse(str(corpora[other]))], None)
    assert len(beginning.notes) == 1
    assert words in beginning.notes[0]
    _, beginning = build_training_spec(recipe, [WeightedCorpus.parse(str(corpora[name]))], None)
    assert beginning.notes == ()


def test_streams_of_several_corpora_and_orders_without_plm_are_refused(corpora: dict[str, Path]) -> None:
    recipe, corpus = recipe_of("xlnet", "training.steps=1"), WeightedCorpus.parse(str(corpora["xlnet"]))
    with pytest.raises(ConfigError, match="cannot mix 2 corpora; prepare their files as one corpus"):
        build_training_spec(recipe, [corpus, corpus], None)
    with pytest.raises(ConfigError, match="the permutation law and the plm objective go together"):
        build_training_spec(replace(recipe, objectives={"mlm": 1.0}), [corpus], None)


def test_gpt_mixes_corpora_as_every_sample_stands_for_itself(corpora: dict[str, Path]) -> None:
    recipe, corpus = recipe_of("gpt", "training.steps=1"), WeightedCorpus.parse(str(corpora["gpt"]))
    work, _ = build_training_spec(recipe, [corpus, corpus], None)
    (batch,) = work.data.step(0, rank=0, world_size=1)
    assert len(batch.lengths) == 4
    assert len(batch.positions) == len(batch.targets) == len(batch.input_ids)
