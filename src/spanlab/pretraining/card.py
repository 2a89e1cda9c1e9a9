"""The model card of a pre-trained model: what it is, what it was trained on and how, and how to use it."""

import yaml

from spanlab.config import to_mapping
from spanlab.markdown import code_block, plain
from spanlab.pretraining.methods import PAIR_BLOCKS
from spanlab.pretraining.recipe import Recipe
from spanlab.version import __version__

_CORRUPTION = {
    None: "none, neighbouring tokens are predicted",
    "permutation": "none, tokens are predicted in random orders",
}


def write_card(recipe: Recipe, corpora: list[str], tokens: int) -> str:
    """The card as Markdown with the front matter that the hub reads."""
    objectives = list(recipe.active_objectives)
    front = {"library_name": "spanlab", "tags": [recipe.system, "pre-trained", *objectives]}
    if not PAIR_BLOCKS.keys() >= set(objectives):
        front["pipeline_tag"] = recipe.method.pipeline_tag
    masks = f"{recipe.masking.law} masks, {recipe.masking.ratio:.0%} of the tokens"
    weights = ", ".join(f"{name} {recipe.objectives[name]:g}" for name in objectives)
    names = ", ".join(map(plain, corpora))
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False).strip(),
        "---",
        f"# {plain(recipe.system)} {plain(recipe.size)}",
        "",
        f"Pre-trained with SpanLab {__version__} on {names} ({tokens:,} tokens), seed {recipe.seed}.",
        "",
        f"- objectives: {weights}",
        f"- corruption: {_CORRUPTION.get(recipe.corruption, masks)}",
        f"- samples: {recipe.data.blocks}, up to {recipe.data.longest} tokens",
        "",
        "```python",
        "import spanlab",
        'encoder = spanlab.Encoder.from_pretrained("this folder")',
        "```",
        "",
        "It loads in transformers where there is a class for its architecture. `spanlab finetune` takes the folder as",
        "it is, and so does `spanlab fill` or `spanlab generate`, by its objectives.",
        "",
        "## Settings",
        "",
        code_block(yaml.safe_dump(to_mapping(recipe), sort_keys=False, allow_unicode=True).strip(), "yaml"),
        "",
    ]
    return "\n".join(lines)
