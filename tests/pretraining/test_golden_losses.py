"""Fifty steps of every system at size tiny: the same to the last bit twice, and the same as recorded.

The recorded losses are in `golden/`; a change that means to alter them writes them anew with

    SPANLAB_RECORD=1 python -m pytest tests/pretraining/test_golden_losses.py
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from spanlab.corpus import PrepareConfig, PreparedCorpus, plan_preparation, run_preparation
from spanlab.encoder import Electra, ElmoEncoder, Encoder, build_encoder, elmo_preset, preset
from spanlab.objectives import TensorBatch, build_criterion
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.recipes import shipped_recipes
from spanlab.text.train import TokenizerConfig, train_tokenizer

HERE = Path(__file__).parent
STEPS, BATCH = 50, 8
SHORT = ["data.length=64", "masking.static=0"]
OVERRIDES = {
    "gpt": ["data.length=64"],
    "elmo": ["data.length=20", f"data.streams={BATCH}"],
    "xlnet": [*SHORT, f"data.streams={BATCH}", "data.reuse=32", "data.memory=48", "masking.permutation.predictions=10"],
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreparedCorpus]:
    """The text in the tokens of most systems, and in whole words for ELMo."""
    text = HERE / "golden_corpus.txt"
    found = {}
    for kind in ("wordpiece", "word"):
        tokenizer = train_tokenizer([text.read_text()], TokenizerConfig(kind=kind, vocab_size=300))
        folder = tmp_path_factory.mktemp("golden") / kind
        plan = plan_preparation([str(text)], PrepareConfig(documents="blank-line"))
        run_preparation(plan, tokenizer=tokenizer, out=folder, workers=1)
        found[kind] = PreparedCorpus.open(folder)
    return found


def model_of(recipe: Recipe, corpus: PreparedCorpus) -> Encoder | Electra:
    vocabulary = corpus.tokenizer.vocabulary
    if recipe.system == "elmo":
        return ElmoEncoder(elmo_preset("tiny", vocab_size=len(vocabulary)), vocabulary)
    remembered = {"memory": recipe.data.memory, "reuse": recipe.data.reuse}
    config = preset(recipe.system, "tiny", vocab_size=len(vocabulary), **remembered)
    return Electra.build(config) if "rtd" in recipe.objectives else build_encoder(config)


def losses_of(recipe: Recipe, corpus: PreparedCorpus) -> list[float]:
    """The weighted loss of each step, on one thread, from fixed seeds."""
    torch.manual_seed(0)
    criterion = build_criterion(model_of(recipe, corpus), recipe.objectives)
    module = criterion.train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    examples = Examples(corpus, recipe)
    losses = []
    for step in range(STEPS):
        epoch, first = divmod(step * BATCH, len(examples))
        indices = (np.arange(first, first + BATCH)) % len(examples)
        loss = criterion(TensorBatch.from_examples(examples.batch(indices, epoch)))
        loss.value.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.value.item())
    return losses


@pytest.mark.parametrize("name", shipped_recipes())
def test_fifty_steps(name: str, corpora: dict[str, PreparedCorpus]) -> None:
    recipe = load_recipe(name, OVERRIDES.get(name, SHORT))
    corpus = corpora["word" if name == "elmo" else "wordpiece"]
    losses = losses_of(recipe, corpus)
    assert losses == losses_of(recipe, corpus)
    assert np.mean(losses[-10:]) < np.mean(losses[:5])
    path = HERE / "golden" / f"{name}.json"
    if os.environ.get("SPANLAB_RECORD"):
        path.write_text(json.dumps(losses, indent=0) + "\n")
    np.testing.assert_allclose(losses, json.loads(path.read_text()), rtol=1e-4)
