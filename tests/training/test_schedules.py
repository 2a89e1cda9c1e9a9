from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spanlab.training.config import TrainingConfig
from spanlab.training.schedules import learning_rate_factor

SCHEDULES = ["linear", "cosine", "constant", "warmup-stable-decay", "polynomial", "noam"]


def factors(total: int, **options: Any) -> list[float]:
    config = TrainingConfig(steps=total, **options)
    return [learning_rate_factor(step, total, config) for step in range(total)]


def theirs(build: Any, total: int, *arguments: Any, **options: Any) -> list[float]:
    """The factors of transformers' schedule for steps 0 to total."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = build(optimiser, *arguments, **options)
    (factor,) = schedule.lr_lambdas
    return [factor(step) for step in range(total + 1)]


@pytest.mark.parametrize("warmup", [0, 1, 7])
@pytest.mark.parametrize("name", ["linear", "cosine", "constant", "polynomial", "warmup-stable-decay"])
def test_as_transformers_one_step_on_while_the_rate_rises_and_the_same_after(name: str, warmup: int) -> None:
    library = pytest.importorskip("transformers.optimization")
    total = 40
    options: dict[str, Any] = {}
    if name == "linear":
        reference = theirs(library.get_linear_schedule_with_warmup, total, warmup, total)
    elif name == "cosine":
        reference = theirs(library.get_cosine_schedule_with_warmup, total, warmup, total)
    elif name == "constant":
        reference = theirs(library.get_constant_schedule_with_warmup, total, warmup)
    elif name == "polynomial":
        options = {"power": 2.0, "final_lr": 0.1}
        build = library.get_polynomial_decay_schedule_with_warmup
        reference = theirs(build, total, warmup, total, lr_end=0.1, power=2.0)
    else:
        options = {"decay_share": 0.25}
        build = library.get_wsd_schedule
        reference = theirs(build, total, warmup, 10, num_training_steps=total, decay_type="linear")
    ours = factors(total, schedule=name, warmup=float(warmup), **options)
    assert ours == pytest.approx([reference[step + 1] if step < warmup else reference[step] for step in range(total)])


def test_the_first_and_the_last_update_are_not_wasted() -> None:
    assert factors(6, warmup=2.0) == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25])


def test_the_clock_of_bert_starts_at_zero() -> None:
    # BERT's own code: lr · step / warmup within the warm-up, lr · (1 - step / total) after it.
    assert factors(10, warmup=4.0, decay_from_start=True) == pytest.approx(
        [0.25, 0.5, 0.75, 1.0, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    )


def test_the_stable_rate_falls_at_the_end_alone() -> None:
    rates = factors(10, schedule="warmup-stable-decay", warmup=2.0, decay_share=0.4, final_lr=0.2)
    assert rates == pytest.approx([0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4])


@pytest.mark.parametrize("warmup", [1, 4, 30])
def test_noam_is_the_published_formula(warmup: int) -> None:
    width = 512
    rates = factors(20, schedule="noam", warmup=float(warmup))
    published = [width**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in range(1, 21)]
    assert [(width * warmup) ** -0.5 * rate for rate in rates] == pytest.approx(published)
    assert factors(20, schedule="noam", warmup=0.0) == pytest.approx(factors(20, schedule="noam", warmup=1.0))


def test_a_warm_up_below_one_is_a_share_of_the_steps() -> None:
    assert factors(50, warmup=0.1) == factors(50, warmup=5.0)
    assert factors(30, warmup=0.1) == factors(30, warmup=3.0)


@given(
    total=st.integers(1, 200),
    schedule=st.sampled_from(SCHEDULES),
    warmup=st.floats(0, 300),
    final_lr=st.floats(0, 1),
    power=st.floats(0.5, 3),
    decay_share=st.floats(0, 1),
    from_start=st.booleans(),
)
def test_it_rises_then_never_rises_again_and_stays_between_zero_and_one(
    total: int, schedule: str, warmup: float, final_lr: float, power: float, decay_share: float, from_start: bool
) -> None:
    rates = factors(
        total,
        schedule=schedule,
        warmup=warmup,
        final_lr=final_lr,
        power=power,
        decay_share=decay_share,
        decay_from_start=from_start,
    )
    rising = round(warmup if warmup >= 1 else warmup * total)
    assert all(0 < rate <= 1 for rate in rates)
    assert rates[:rising] == sorted(rates[:rising])
    assert all(later <= earlier + 1e-12 for earlier, later in zip(rates[rising:], rates[rising + 1 :], strict=False))
    if rising < total:
        assert all(rate >= final_lr - 1e-12 for rate in rates[rising:])


def test_after_the_last_step_it_is_what_the_schedule_ends_at() -> None:
    for schedule in ("linear", "cosine", "polynomial", "warmup-stable-decay"):
        config = TrainingConfig(steps=20, schedule=schedule, final_lr=0.25)
        assert learning_rate_factor(20, 20, config) == pytest.approx(0.25)
        assert learning_rate_factor(30, 20, config) == pytest.approx(0.25)
