"""The special tokens of each system, in the order of its published vocabulary.

A role (padding, unknown, first of the sequence, separator, mask) has another name in every system. The table below
is all that is known about it: training puts `tokens` first in a new vocabulary, loading reads roles from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

System = Literal["bert", "roberta", "albert", "xlnet", "gpt", "elmo"]
Role = Literal["pad", "unk", "cls", "sep", "mask"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """What a system calls its special tokens."""

    tokens: tuple[str, ...]
    """All of them, in the order of their ids."""
    roles: Mapping[Role, str]


SYSTEMS: Mapping[System, SpecialTokens] = {
    "bert": SpecialTokens(
        tokens=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        roles={"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    ),
    "albert": SpecialTokens(
        tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    ),
    "xlnet": SpecialTokens(
        tokens=("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>"},
    ),
    "roberta": SpecialTokens(
        tokens=("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
    ),
    "elmo": SpecialTokens(tokens=("<S>", "</S>", "<UNK>"), roles={"unk": "<UNK>", "cls": "<S>", "sep": "</S>"}),
    "gpt": SpecialTokens(tokens=("<|endoftext|>",), roles={"sep": "<|endoftext|>"}),
}


def system_of(vocabulary: Mapping[str, int]) -> System:
    """The system whose special tokens a vocabulary holds: the first in the table that is wholly there.

    A vocabulary that holds none of them whole (GPT-1's, a bare word list) speaks GPT's language: text, and no more.
    """
    return next((name for name, special in SYSTEMS.items() if all(token in vocabulary for token in special.tokens)), "gpt")
