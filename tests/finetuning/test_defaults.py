"""What is chosen by width and number of examples: published at 768, monotone, and never what the user gives."""

from dataclasses import replace
from itertools import pairwise

import pytest

from spanlab.config import to_mapping
from spanlab.finetuning.config import MULTITASK, published_training, resolve_run_config
from spanlab.finetuning.defaults import PUBLISHED_RATES, RunScale, Unset, unset_settings, written
from spanlab.tasks.table import TASKS
from spanlab.training.config import TrainingConfig

ALL_OPEN = unset_settings({})
PUBLISHED_SIZES = {"ner": 14_041, "qa": 87_599, "classification": 2_490, "similarity": 3_668, "relation": 68_124}
"""Training examples of the data that the settings are published for; of GLUE the smallest."""


def chosen(training: TrainingConfig, width: int = 768, examples: int = 100_000, published: int = 768) -> TrainingConfig:
    return RunScale(width=width, examples=examples, published_width=published).choose(training, ALL_OPEN)


@pytest.mark.parametrize("task", [*TASKS, MULTITASK])
@pytest.mark.parametrize("width", [768, 1024])
def test_published_encoders_keep_the_published_settings(task: str, width: int) -> None:
    published = resolve_run_config(task, {}).training
    assert chosen(published, width, PUBLISHED_SIZES.get(task, 10_000)) == published


def test_the_rate_rises_as_the_width_falls() -> None:
    training = TrainingConfig(lr=3e-5)
    rates = {width: chosen(training, width).lr for width in (1024, 768, 512, 384, 256, 128, 32)}
    assert rates[256] == 4.7e-4
    assert all(wide <= narrow for wide, narrow in pairwise(rates.values()))
    assert rates[32] == rates[128] < 5e-3


def test_what_is_trained_beside_a_frozen_encoder_learns_faster() -> None:
    for width in (1024, 768, 384, 256, 128):
        whole, frozen = (RunScale(width=width, examples=1, frozen=frozen) for frozen in (False, True))
        assert whole.rate_factor <= frozen.rate_factor <= 36
    assert RunScale(width=768, examples=1, frozen=True).rate_factor == 5
    line = frozen.explain(TrainingConfig(lr=1e-3), Unset(lr=True))
    assert line == "learning rate 1e-3 for width 128 and a frozen encoder; set training.lr to change"


def test_epochs_fall_as_examples_rise() -> None:
    training = TrainingConfig(epochs=3.0, batch_size=32)
    epochs = [chosen(training, examples=examples).epochs or 0 for examples in (1, 10, 500, 1000, 2000, 5000, 10**6)]
    assert all(few >= many for few, many in pairwise(epochs))
    assert epochs[2] > epochs[3] > epochs[4] > epochs[-1] == 3.0
    for examples in (500, 2000):
        assert (chosen(training, examples=examples).epochs or 0) * examples / 32 == pytest.approx(300, rel=0.05)


def test_the_rate_of_a_faster_head_rises_less_than_that_of_the_encoder() -> None:
    for task, settings in (("ner", {"head": "span"}), ("qa", {"head": "span"}), ("coref", {}), ("relation", {})):
        published = resolve_run_config(task, settings).training
        runs = [published, *(chosen(published, width) for width in (512, 384, 256, 128))]
        assert all(wide.lr_factors["heads"] > narrow.lr_factors["heads"] >= 1 for wide, narrow in pairwise(runs))
        rates = [run.lr * run.lr_factors["heads"] for run in runs]
        assert all(wide < narrow < 5e-3 for wide, narrow in pairwise(rates))
    weighted = resolve_run_config("multitask", {"weighting": "uncertainty"}).training
    narrow = chosen(weighted, 128)
    before = weighted.lr * weighted.lr_factors["log_variances"]
    assert narrow.lr * narrow.lr_factors["log_variances"] == pytest.approx(before)
    assert chosen(TrainingConfig(lr_factors={"encoder": 0.5}), 128).lr_factors == {"encoder": 0.5}


def test_a_preset_for_small_encoders_is_not_made_faster_for_them() -> None:
    small = resolve_run_config("coref", {"coref": "small"})
    assert chosen(small.training, 384, published=small.published_width).lr == small.training.lr
    assert chosen(small.training, 128, published=small.published_width).lr > small.training.lr


@pytest.mark.parametrize(
    ("given", "unset"),
    [
        ({"lr": 1e-5}, Unset(epochs=True)),
        ({"epochs": 1}, Unset(lr=True, lr_factors=True)),
        ({"steps": 5}, Unset(lr=True, lr_factors=True)),
        ({"steps": None}, Unset(lr=True, lr_factors=True, epochs=True)),
        ({"lr_factors": {"heads": 3.0}}, Unset(lr=True, epochs=True)),
        ({"batch_size": 8}, Unset(lr=True, lr_factors=True, epochs=True)),
    ],
)
def test_what_the_user_gives_wins(given: dict[str, object], unset: Unset) -> None:
    changes = {"head": "span", "training": given}
    assert unset_settings(changes) == unset
    training = resolve_run_config("ner", changes).training
    settled = RunScale(width=128, examples=50).choose(training, unset)
    assert {key: to_mapping(settled)[key] for key in given} == {key: to_mapping(training)[key] for key in given}
    assert (settled != training) == any(vars(unset).values())


def test_a_sweep_is_around_the_rate_of_the_width() -> None:
    assert RunScale(width=768, examples=1).sweep_rates() == PUBLISHED_RATES
    rates = RunScale(width=128, examples=1).sweep_rates()
    assert min(rates) < chosen(resolve_run_config("classification", {}).training, 128).lr < max(rates)


def test_one_line_tells_what_was_chosen() -> None:
    scale, training = RunScale(width=256, examples=1200), TrainingConfig(lr=2.7e-4, epochs=8.0)
    line = "learning rate 2.7e-4 for width 256, 8 epochs for 1,200 examples; set training.lr, training.epochs to change"
    assert scale.explain(training, ALL_OPEN) == line
    assert scale.explain(training, Unset(epochs=True)) == "8 epochs for 1,200 examples; set training.epochs to change"
    assert scale.explain(training, Unset()) is None


def test_advice_is_never_what_the_run_had() -> None:
    scale = RunScale(width=128, examples=500)
    config = resolve_run_config("ner", {})
    usual = scale.choose(config.training, ALL_OPEN)
    published = published_training(config)
    assert "default" not in scale.advise(usual, published)
    assert f"--sweep (now {written(usual.lr)}), more training.epochs (now 19)" in scale.advise(usual, published)
    for lr in (1e-9, 0.5):
        advice = scale.advise(replace(usual, lr=lr, steps=40), published)
        assert advice.startswith(f"the default training.lr of {written(usual.lr)} (now {written(lr)}), ")
        assert "more training.steps (now 40)" in advice
