"""Every recipe on every backbone: two steps of the smallest model, or one line before anything is loaded."""

from pathlib import Path

import numpy as np
import pytest

from spanlab.encoder import load_model
from spanlab.encoder.architectures import SYSTEMS
from spanlab.errors import ConfigError
from spanlab.pretraining.recipe import load_recipe
from spanlab.recipes import shipped_recipes
from spanlab.workflows.pretrain import PretrainingJob, run_job
from tests.pretraining.making import SMALLEST, make_tokenizer, prepare, write_text
from tests.workflows.running import records

BACKBONES = (*SYSTEMS, "elmo")
COMMON = (*(setting for setting in SMALLEST if not setting.startswith(("backbone", "encoder"))), "data.held_out=0")
NARROW = tuple(setting for setting in SMALLEST if setting.startswith("encoder"))
ELMO = ("encoder.cells=32", "encoder.projection=16", "encoder.filters=[[1,8],[2,8]]", "encoder.highways=1")
OF_RECIPE = {"xlnet": ("data.reuse=16", "data.memory=16", "masking.permutation.predictions=5")}

ONLY = {
    "clm": {"gpt", "gpt2"},
    "plm": {"xlnet"},
    "bilm": {"elmo"},
    "rtd": set(BACKBONES) - {"xlnet", "elmo"},
    "nsp": set(BACKBONES) - {"elmo"},
    "sop": set(BACKBONES) - {"elmo"},
}
"""The backbones that an objective can be trained on; the others on all."""


def job(recipe: str, backbone: str, *more: str, data: tuple[str, ...] = (), out: str = "") -> PretrainingJob:
    shape = ELMO if backbone == "elmo" else NARROW
    settings = [*COMMON, *shape, *OF_RECIPE.get(recipe, ()), f"backbone={backbone}", "training.steps=2", *more]
    return PretrainingJob(recipe=load_recipe(recipe, settings), data=data, out=out)


def trains(recipe: str, backbone: str) -> bool:
    active = load_recipe(recipe).active_objectives
    return all(backbone in ONLY.get(objective, BACKBONES) for objective in active)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    text = write_text(folder / "text.txt", documents=12)
    return prepare(text, make_tokenizer(text, "wordpiece", 120), folder / "corpus")


def test_the_table_has_both() -> None:
    kinds = [trains(recipe, backbone) for recipe in shipped_recipes() for backbone in BACKBONES]
    assert sum(kinds) > 60
    assert len(kinds) - sum(kinds) > 25


@pytest.mark.parametrize("recipe", shipped_recipes())
def test_a_recipe_trains_on_a_backbone_or_is_refused_at_once(recipe: str, corpus: Path, tmp_path: Path) -> None:
    for backbone in BACKBONES:
        if trains(recipe, backbone):
            done = run_job(job(recipe, backbone, data=(str(corpus),), out=str(tmp_path / backbone)))
            losses = [line["loss"] for line in records(done.folder)]
            assert done.outcome == "finished"
            assert len(losses) == 2
            assert np.isfinite(losses).all(), backbone
            assert load_model(done.model).heads, backbone
        else:
            # Neither the corpus nor the run folder exists, and nobody asks for them.
            with pytest.raises(ConfigError) as refused:
                job(recipe, backbone, data=("no-such-corpus",))
            assert "\n" not in str(refused.value)
            assert refused.value.fix, backbone


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("gpt", ("backbone=bert",), "the clm objective predicts .*; set backbone=gpt, or encoder.causal=true"),
        ("gpt", ("backbone=xlnet",), "the clm objective predicts .*; set backbone=gpt$"),
        ("xlnet", ("backbone=bert",), "the plm objective needs two streams .* bert does not have; set backbone=xlnet"),
        ("elmo", ("backbone=gpt",), "the bilm objective needs a reader .*; set backbone=elmo"),
        ("electra", ("backbone=xlnet",), "the rtd objective .* xlnet encoders cannot be; set backbone=electra"),
        ("bert", ("backbone=elmo",), "the nsp objective needs a pooled vector.*; set objectives.nsp=0"),
        ("bert", ("backbone=robreta",), "unknown backbone 'robreta' .did you mean 'roberta'"),
        ("electra", ("masking.collapse=true",), "the rtd objective compares .*; set masking.collapse=false"),
        ("bert", ("objectives.sop=1",), "nsp and sop cannot be combined"),
    ],
)
def test_refusals_say_what_to_write_instead(recipe: str, settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PretrainingJob(recipe=load_recipe(recipe, settings), data=(), out="")


@pytest.mark.parametrize(
    ("recipe", "backbone", "more"),
    [
        ("gpt", "bert", ("encoder.causal=true",)),
        ("gpt", "transformer", ("encoder.causal=true",)),
        ("bert", "roberta", ("encoder.segments=2",)),
        ("bert", "gpt", ("encoder.segments=2",)),
        ("bert", "modernbert", ("encoder.segments=2",)),
        ("bert", "elmo", ("objectives.nsp=0", "data.blocks=documents")),
        ("albert", "elmo", ("objectives.sop=0", "data.blocks=documents")),
    ],
)
def test_what_a_refusal_or_a_note_advises_works(
    recipe: str, backbone: str, more: tuple[str, ...], corpus: Path, tmp_path: Path
) -> None:
    done = run_job(job(recipe, backbone, *more, data=(str(corpus),), out=str(tmp_path / "run")))
    assert np.isfinite([line["loss"] for line in records(done.folder)]).all()


def test_a_pair_without_segment_embeddings_is_told_of(corpus: Path, tmp_path: Path) -> None:
    started: list[str] = []
    run_job(
        job("bert", "roberta", data=(str(corpus),), out=str(tmp_path / "run")),
        on_start=lambda _, notes: started.extend(notes),
    )
    assert any("a roberta encoder has no segment embeddings" in note for note in started)
