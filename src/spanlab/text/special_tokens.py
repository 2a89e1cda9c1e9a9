"""The special tokens of each system: their names, their roles, and their template around a text or a pair.

Each system names the roles (padding, unknown, class, separator, mask) differently. In the table below, `tokens` get the
first ids of a new vocabulary in this order, `roles` tells loading which token is which, and `template` is what saving
writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

System = Literal["bert", "roberta", "albert", "xlnet", "gpt", "elmo"]
Role = Literal["pad", "unk", "cls", "sep", "mask"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special tokens of a system and where they go."""

    tokens: tuple[str, ...]
    """All of them, in the order of their ids."""
    roles: Mapping[Role, str]
    template: tuple[str, str] | None = None
    """For one text and for a pair, in the notation of `tokenizers`: `$A:0` is the text and its segment."""
    last_id: bool = False
    """GPT-2 gives its one token the last id of the vocabulary instead of the first."""
    segments: bool = True
    """Whether the model has segment embeddings."""
    padding_side: Literal["left", "right"] = "right"


_BERT_TEMPLATE = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")

# In the order in which `system_of` tries them: XLNet's vocabulary contains all of RoBERTa's special tokens, too.
SYSTEMS: Mapping[System, SpecialTokens] = {
    "bert": SpecialTokens(
        tokens=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        roles={"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
        template=_BERT_TEMPLATE,
    ),
    "albert": SpecialTokens(
        tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
        template=_BERT_TEMPLATE,
    ),
    "xlnet": SpecialTokens(
        tokens=("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>"},
        template=("$A:0 <sep>:0 <cls>:2", "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"),
        padding_side="left",
    ),
    "roberta": SpecialTokens(
        tokens=("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
        template=("<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0"),
        segments=False,
    ),
    "elmo": SpecialTokens(
        tokens=("<S>", "</S>", "<UNK>"),
        roles={"unk": "<UNK>", "cls": "<S>", "sep": "</S>"},
        template=("<S>:0 $A:0 </S>:0", "<S>:0 $A:0 </S>:0 $B:0 </S>:0"),
        segments=False,
    ),
    "gpt": SpecialTokens(
        tokens=("<|endoftext|>",), roles={"unk": "<unk>", "sep": "<|endoftext|>"}, last_id=True, segments=False
    ),
}


def system_of(vocabulary: Mapping[str, int]) -> System:
    """The first system of the table whose special tokens are all in a vocabulary.

    A vocabulary with none of them (GPT-1's, a plain list of words) counts as GPT's: no special tokens around text.
    """
    matching = (name for name, special in SYSTEMS.items() if all(token in vocabulary for token in special.tokens))
    return next(matching, "gpt")


def set_template(backend: Any, system: System) -> None:  # noqa: ANN401 (tokenizers.Tokenizer)
    """Make a tokenizer add the system's special tokens around texts, as transformers expects of `tokenizer.json`."""
    from tokenizers import processors

    special = SYSTEMS[system]
    if special.template is None:
        return
    single, pair = special.template
    names = [(token, backend.token_to_id(token)) for token in special.tokens if token in single]
    template = processors.TemplateProcessing(single=single, pair=pair, special_tokens=names)
    byte_level = type(backend.pre_tokenizer).__name__ == "ByteLevel"
    trim = [processors.ByteLevel(trim_offsets=True)] if byte_level else []
    backend.post_processor = processors.Sequence([*trim, template]) if trim else template
