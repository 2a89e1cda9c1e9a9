"""An untrained model: the shape of a recipe and a tokenizer in, a model folder with random weights out.

What is fine-tuned from scratch starts here: an encoder and decoder for translation, or the baseline that shows what
pre-training is worth.
"""

from pathlib import Path

from torch import nn

from spanlab.atomic_io import check_new_folder, staged_folder
from spanlab.encoder import EncoderConfig
from spanlab.pretraining.build import save_criterion
from spanlab.pretraining.initial_model import build_model
from spanlab.pretraining.recipe import Recipe
from spanlab.text import Tokenizer


def new_model(recipe: Recipe, tokenizer: str | Path, out: Path, *, overwrite: bool = False) -> EncoderConfig:
    """Write the model that a run of the recipe would start from; the same seed gives the same weights."""
    check_new_folder(out, overwrite=overwrite)
    words = Tokenizer.load(tokenizer)
    model = build_model(recipe, words)
    assert isinstance(model.criterion, nn.Module)
    with staged_folder(out) as folder:
        save_criterion(folder, model.criterion, recipe.system)
        words.save(folder)
    return model.config
