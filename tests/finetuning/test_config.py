"""The settings of a run: published defaults that survive overrides, and refusals that name the key."""

import pytest

from spanlab.errors import ConfigError
from spanlab.finetuning.config import UNCERTAINTY_RATE, MultitaskConfig, resolve_config, resolve_run_config


def test_overrides_lie_over_the_published_settings() -> None:
    config = resolve_config("classification", {"training": {"lr": 1e-3}, "data": {"columns": "_,label,_,text"}})
    assert config.training.lr == 1e-3
    assert (config.training.batch_size, config.training.epochs) == (32, 10.0)
    assert config.data.columns == ("_", "label", "_", "text")
    assert resolve_config("similarity", {"score_range": [0, 1]}).score_range == (0.0, 1.0)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": {"lenght": 3}}, "did you mean 'data.length'"),
        ({"tuning": {"augment_share": 2.0}}, "above 0 and below 1"),
        ({"data": {"length": 2}}, "at least 8"),
        ({"training": {"batch_warmup": 0.1}}, "is for pre-training"),
        ({"data": 3}, "'data' is 3"),
    ],
)
def test_what_cannot_be_meant(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve_config("classification", changes)


def test_settings_of_the_run() -> None:
    config = resolve_run_config("multitask", {"weighting": "uncertainty", "training": {"lr": 1e-3}})
    assert isinstance(config, MultitaskConfig)
    assert config.training.lr_factors == {"log_variances": UNCERTAINTY_RATE}
    assert config.training.batch_size == MultitaskConfig().training.batch_size
    own = resolve_run_config(
        "multitask", {"weighting": "uncertainty", "training": {"lr_factors": {"log_variances": 2.0}}}
    )
    assert own.training.lr_factors == {"log_variances": 2.0}
    with pytest.raises(ConfigError, match="did you mean 'uniform'"):
        resolve_run_config("multitask", {"sampling": "unifrom"})
    with pytest.raises(ConfigError, match="at least 1"):
        resolve_run_config("multitask", {"temperature": 0.5})
    with pytest.raises(ValueError, match="did you mean 'multitask'"):
        resolve_run_config("multitaks", {})


@pytest.mark.parametrize(
    ("task", "head"), [("ner", "span"), ("qa", "span"), ("relation", "joint"), ("relation", "auto")]
)
def test_new_layers_on_spans_learn_faster_than_the_encoder(task: str, head: str) -> None:
    assert resolve_config(task, {"head": head}).training.lr_factors == {"heads": 10.0}
    slow = {"head": head, "training": {"lr_factors": {"heads": 1.0}}}
    assert resolve_config(task, slow).training.lr_factors == {"heads": 1.0}


@pytest.mark.parametrize(("task", "head"), [("ner", "tag"), ("qa", "pointers")])
def test_published_heads_keep_the_published_rate(task: str, head: str) -> None:
    published = resolve_config(task, {"head": head}).training
    assert published == resolve_config(task, {}).training
    assert published.lr_factors == {}
