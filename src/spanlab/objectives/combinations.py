"""The names of the objectives, and which of them can be trained together; read without torch."""

from collections.abc import Collection

from spanlab.errors import ConfigError

OBJECTIVES = ("mlm", "sbo", "nsp", "sop", "clm", "rtd", "plm", "bilm")
"""All names. `rtd` needs ELECTRA's generator (trained with `mlm`) and discriminator, `plm` XLNet, `bilm` ELMo."""

_ALONE = {
    "rtd": ({"mlm", "rtd"}, "a generator and a discriminator"),
    "plm": ({"plm"}, "plm"),
    "bilm": ({"bilm"}, "bilm"),
    "clm": ({"clm"}, "clm"),
}
"""By objective: those it can be trained with, and what to call it."""


def check_combination(active: Collection[str]) -> None:
    """Refuse objectives that cannot be trained together: an example is either masked, or permuted, or neither."""
    for name, (allowed, called) in _ALONE.items():
        others = sorted(set(active) - allowed)
        if name in active and others:
            raise ConfigError(f"'{others[0]}' cannot be combined with {called}", fix=f"set objectives.{others[0]}=0")
    if {"nsp", "sop"} <= set(active):
        cause = "nsp and sop cannot be combined: a sentence pair has one label"
        raise ConfigError(cause, fix="set objectives.nsp=0 or objectives.sop=0")
