"""Refilled copies: whole words, in their places, decided by the seed, special and fixed tokens left alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spanlab.encoder import load_model
from spanlab.errors import ConfigError, MissingHeadError
from spanlab.finetuning.augmentation import refilled_copies
from spanlab.tasks.config import TuningConfig
from spanlab.tasks.sample import Sample
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.training.distributed import ProcessContext

HERE = ProcessContext(device=torch.device("cpu"), precision="fp32")
TEXTS = ["The river rose in spring and flooded the valley.", "She won the race.", "Snow fell on the hills all night."]


def copies(folder: Path, samples: list[Sample], *, batch_tokens: int = 1000, seed: int = 0) -> list[Sample]:
    tuning = TuningConfig(augment=2, augment_share=0.3)
    model, tokenizer = load_model(folder), Tokenizer.load(folder)
    return refilled_copies(samples, model, tokenizer, tuning, seed=seed, batch_tokens=batch_tokens, process=HERE)


@pytest.fixture
def samples(tiny_model: Path) -> list[Sample]:
    windower = Windower(Tokenizer.load(tiny_model), length=64, segments=2)
    windows = [windower.single(tokens)[0] for tokens in windower.tokenize(TEXTS)]
    return [Sample(example=n, sequences=(w.sequence,), targets={"label": np.array([n])}) for n, w in enumerate(windows)]


def test_copies_keep_shape_and_targets_and_change_words(tiny_model: Path, samples: list[Sample]) -> None:
    made = copies(tiny_model, samples)
    special = Tokenizer.load(tiny_model).special_ids
    assert [copy.example for copy in made] == [0, 1, 2, 0, 1, 2]
    for copy in made:
        original = samples[copy.example].sequences[0]
        filled = copy.sequences[0]
        assert len(filled) == len(original)
        assert copy.targets == samples[copy.example].targets
        kept = np.isin(original.ids, special)
        assert (filled.ids[kept] == original.ids[kept]).all()
        assert not np.isin(filled.ids[~kept], special).any()
    assert any((copy.sequences[0].ids != samples[copy.example].sequences[0].ids).any() for copy in made)


def test_copies_depend_on_the_seed_and_not_on_the_batches(tiny_model: Path, samples: list[Sample]) -> None:
    def ids(made: list[Sample]) -> list[list[int]]:
        return [copy.sequences[0].ids.tolist() for copy in made]

    assert ids(copies(tiny_model, samples)) == ids(copies(tiny_model, samples, batch_tokens=1))
    assert ids(copies(tiny_model, samples)) != ids(copies(tiny_model, samples, seed=1))


def test_fixed_tokens_are_left(tiny_model: Path, samples: list[Sample]) -> None:
    fixed = [replace(sample, fixed=np.ones(sample.tokens, bool)) for sample in samples]
    for copy in copies(tiny_model, fixed):
        assert (copy.sequences[0].ids == samples[copy.example].sequences[0].ids).all()


def test_what_is_needed(tiny_model: Path, samples: list[Sample]) -> None:
    model, tokenizer = replace(load_model(tiny_model), heads={}), Tokenizer.load(tiny_model)
    options = {"seed": 0, "batch_tokens": 100, "process": HERE}
    with pytest.raises(MissingHeadError, match="mlm"):
        refilled_copies(samples, model, tokenizer, TuningConfig(augment=1), **options)  # type: ignore[arg-type]
    tokenizer.mask_id = None
    with pytest.raises(ConfigError, match="mask token"):
        refilled_copies(samples, model, tokenizer, TuningConfig(augment=1), **options)  # type: ignore[arg-type]
