"""The model card of a pre-trained model: what it is, what it was trained on and how, and how to use it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import yaml

from spanlab.config import to_mapping
from spanlab.markdown import code_block, plain
from spanlab.models.front_matter import ScoredTask, front_matter
from spanlab.pretraining.methods import PAIR_BLOCKS
from spanlab.pretraining.recipe import Recipe
from spanlab.version import __version__

_CORRUPTION = {
    None: "none, neighbouring tokens are predicted",
    "permutation": "none, tokens are predicted in random orders",
}


_SENTENCE = "The old fisherman mended his nets in the harbour."


def _commands(objectives: Sequence[str]) -> list[str]:
    """What a model with these objectives can do at a prompt, as lines of the card."""
    masked = {"mlm": _SENTENCE.replace("mended", "[MASK]"), "sbo": _SENTENCE.replace("his nets", "[MASK] [MASK]")}
    lines = [f'spanlab fill this-folder "{text}"' for name, text in masked.items() if name in objectives]
    lines += ['spanlab generate this-folder "The old fisherman"'] if "clm" in objectives else []
    return ["```bash", *lines, "```", ""] if lines else []


def write_card(
    recipe: Recipe,
    corpora: list[str],
    tokens: int,
    *,
    init: str | None = None,
    scores: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """The card as Markdown with the front matter that the hub reads.

    Args:
        recipe: what was trained and how.
        corpora: the names of the corpora.
        tokens: how many they have together.
        init: the model that the run started from.
        scores: on held-out text.
    """
    objectives = list(recipe.active_objectives)
    title = f"{recipe.system} {recipe.size}"
    pipeline_tag = None if PAIR_BLOCKS.keys() >= set(objectives) else recipe.method.pipeline_tag
    held_out = ScoredTask(
        task=pipeline_tag or "pre-training", dataset=f"held-out text of {', '.join(corpora)}", metrics=scores
    )
    front = front_matter(
        name=title,
        tags=[recipe.system, "pre-trained", *objectives],
        base=init,
        datasets=corpora,
        pipeline_tag=pipeline_tag,
        scores=[held_out] if scores else [],
    )
    masks = f"{recipe.masking.law} masks, {recipe.masking.ratio:.0%} of the tokens"
    weights = ", ".join(f"{name} {recipe.objectives[name]:g}" for name in objectives)
    names = ", ".join(map(plain, corpora))
    lines = [
        front,
        f"# {plain(title)}",
        "",
        f"Pre-trained with SpanLab {__version__} on {names} ({tokens:,} tokens), seed {recipe.seed}.",
        "",
        f"- objectives: {weights}",
        f"- corruption: {_CORRUPTION.get(recipe.corruption, masks)}",
        f"- samples: {recipe.data.blocks}, up to {recipe.data.longest} tokens",
        "",
        "```python",
        "import spanlab",
        "",
        'encoder = spanlab.Encoder.from_pretrained("this-folder")',
        f'vectors = spanlab.load("this-folder").encode(["{_SENTENCE}"])',
        "```",
        "",
        *_commands(objectives),
        "It loads in transformers where there is a class for its architecture, and `spanlab finetune` takes the folder",
        "as it is.",
        "",
        "## Settings",
        "",
        code_block(yaml.safe_dump(to_mapping(recipe), sort_keys=False, allow_unicode=True).strip(), "yaml"),
        "",
    ]
    return "\n".join(lines)
