"""Which recipe trains on which backbone: what cannot work is refused from the recipe alone, before anything is loaded.

| objectives | backbones |
|---|---|
| mlm, sbo | all |
| nsp, sop | all but ELMo, which has no pooled vector; without segment embeddings the separator tells a pair apart |
| clm | causal ones: gpt, gpt2, and others with `encoder.causal=true` |
| rtd | those that can be ELECTRA's generator and discriminator: all but XLNet and ELMo |
| plm | xlnet |
| bilm | elmo |

With `--init` the backbone is that of the model, and its criterion is checked when it is built.
"""

from spanlab.encoder.architectures import ARCHITECTURES, SYSTEMS
from spanlab.encoder.architectures.base import build_transformer
from spanlab.errors import ConfigError, did_you_mean
from spanlab.objectives.combinations import check_combination
from spanlab.pretraining.methods import PAIR_BLOCKS
from spanlab.pretraining.recipe import Recipe


def check_recipe(recipe: Recipe, *, on_backbone: bool = True) -> None:
    """Refuse objectives that have no targets in the samples, or that the backbone cannot be trained with."""
    check_combination(recipe.active_objectives)
    for objective, blocks in PAIR_BLOCKS.items():
        if objective in recipe.active_objectives and recipe.data.blocks != blocks:
            cause = f"objectives.{objective} needs sentence pairs, but data.blocks is {recipe.data.blocks}"
            raise ConfigError(cause, fix=f"set data.blocks={blocks}, or objectives.{objective}=0")
    # Pair blocks without a pair objective are allowed: two segments, as ELECTRA has them.
    if recipe.corruption is not None and (recipe.corruption == "permutation") != recipe.method.permutes:
        cause = f"masking.law is '{recipe.masking.law}', but objectives.plm is {recipe.objectives.get('plm', 0.0):g}"
        raise ConfigError(cause, fix="the permutation law and the plm objective go together: set both or neither")
    if recipe.method.generator and recipe.masking.collapse:
        cause = "the rtd objective compares token by token, and masking.collapse shortens the text"
        raise ConfigError(cause, fix="set masking.collapse=false")
    if on_backbone:
        _check_backbone(recipe)


def _check_backbone(recipe: Recipe) -> None:
    backbone, active = recipe.backbone or recipe.system, recipe.active_objectives
    known = (*SYSTEMS, "elmo")
    if backbone not in known:
        cause = f"unknown {'backbone' if recipe.backbone else 'system'} '{backbone}'{did_you_mean(backbone, known)}"
        raise ConfigError(f"{cause}; known are {', '.join(known)}", fix="set backbone to one of them")
    settings = SYSTEMS.get(backbone, {})
    architecture = settings.get("architecture", "elmo")
    causal = bool(recipe.encoder.get("causal", settings.get("causal", False)))
    if "clm" in active and not causal:
        cause = f"the clm objective predicts the next token, which a {backbone} encoder sees"
        can_be_causal = ARCHITECTURES[architecture].build is build_transformer
        raise ConfigError(cause, fix="set backbone=gpt" + (", or encoder.causal=true" if can_be_causal else ""))
    if "plm" in active and architecture != "xlnet":
        cause = f"the plm objective needs two streams of attention, which {backbone} does not have"
        raise ConfigError(cause, fix="set backbone=xlnet")
    if "bilm" in active and architecture != "elmo":
        cause = f"the bilm objective needs a reader in each direction, and {backbone} is one encoder"
        raise ConfigError(cause, fix="set backbone=elmo")
    if "rtd" in active and ARCHITECTURES[architecture].build is not build_transformer:
        cause = f"the rtd objective trains a generator and a discriminator, which {backbone} encoders cannot be"
        raise ConfigError(cause, fix="set backbone=electra")
    if recipe.classifies_pairs and architecture == "elmo":
        names = [name for name in PAIR_BLOCKS if name in active]
        cause = f"the {names[0]} objective needs a pooled vector, which elmo does not have"
        raise ConfigError(cause, fix=f"set objectives.{names[0]}=0")
