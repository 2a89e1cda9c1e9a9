"""A small prepared corpus and the smallest models that learn from it, for tests of whole runs."""

import random
from pathlib import Path
from typing import Any

from spanlab.corpus import PrepareConfig, plan_preparation, run_preparation
from spanlab.pretraining.recipe import load_recipe
from spanlab.text import Tokenizer
from spanlab.text.special_tokens import System
from spanlab.text.tokenizer import Kind
from spanlab.text.train import TokenizerConfig, train_tokenizer
from spanlab.workflows.pretrain import PretrainingJob

WHO = ["fisherman", "miller", "captain", "mayor", "widow", "clockmaker", "sailor", "baker", "teacher", "gardener"]
DOES = ["mended", "carried", "forgot", "painted", "counted", "watched", "buried", "followed", "repaired", "borrowed"]
WHAT = ["nets", "lantern", "harbour", "bridge", "window", "orchard", "letter", "engine", "market", "cellar"]
WHEN = ["slowly", "again", "yesterday", "quietly", "before-dawn", "twice", "without-a-word", "in-the-rain"]

SMALLEST = (
    "size=tiny",
    "backbone=null",  # the architecture of the published system
    "encoder.layers=1",
    "encoder.width=32",
    "encoder.heads=2",
    "encoder.inner_width=64",
    "data.phases=[]",
    "data.length=32",
    "data.held_out=0.1",
    "training.batch_size=8",
    "training.lr=0.003",
    "training.precision=fp32",
    "training.threads=1",
    "training.device=cpu",
)
"""Overrides that make any shipped recipe train in a moment."""


def write_text(path: Path, *, documents: int = 60, seed: int = 1) -> Path:
    """Documents of twelve short sentences with few words, so that there is something to learn from them."""
    draw = random.Random(seed)
    lines = []
    for _ in range(documents):
        hero = draw.choice(WHO)
        for _ in range(12):
            when = draw.choice(WHEN).replace("-", " ")
            lines.append(f"The {hero} {draw.choice(DOES)} the {draw.choice(WHAT)} {when}.")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def make_tokenizer(
    text: Path, kind: Kind = "wordpiece", vocab_size: int = 120, *, system: System | None = None
) -> Tokenizer:
    """A tokenizer of the text's own words."""
    config = TokenizerConfig(kind=kind, vocab_size=vocab_size, system=system)
    return train_tokenizer([text.read_text(encoding="utf-8")], config)


def prepare(text: Path, tokenizer: Tokenizer, out: Path) -> Path:
    """The prepared corpus of a text whose lines are sentences."""
    plan = plan_preparation([str(text)], PrepareConfig(documents="blank-line", lines="sentences"))
    run_preparation(plan, tokenizer=tokenizer, out=out, workers=1)
    return out


def job(recipe: str, data: Path | tuple[str, ...], out: Path, *overrides: str, **options: Any) -> PretrainingJob:
    """A run of the smallest model by a recipe; `options` are those of `PretrainingJob`."""
    folders = (str(data),) if isinstance(data, Path) else data
    settings = load_recipe(recipe, [*SMALLEST, *overrides])
    return PretrainingJob(recipe=settings, data=folders, out=str(out), **options)
