"""The special tokens of each system: their names, their roles, and how they frame a sequence.

A role (padding, unknown, first of the sequence, separator, mask) has another name in every system. The table below is
all that is known about it: training gives `tokens` the first ids of a new vocabulary in this order, loading reads the
roles from it, saving writes the frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

System = Literal["bert", "roberta", "albert", "xlnet", "gpt", "elmo"]
Role = Literal["pad", "unk", "cls", "sep", "mask"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """What a system calls its special tokens and where it puts them."""

    tokens: tuple[str, ...]
    """All of them, in the order of their ids."""
    roles: Mapping[Role, str]
    frame: tuple[str, str] | None = None
    """How one text and two texts are framed, in the notation of `tokenizers`: `$A:0`, a token and its segment."""
    last_id: bool = False
    """GPT-2 gives its one token the last id of the vocabulary instead of the first."""
    segments: bool = True
    """Whether the model is told which of two texts a token belongs to."""
    padding_side: Literal["left", "right"] = "right"


_BERT_FRAME = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")

# In the order in which a vocabulary is tried: XLNet's holds every name of RoBERTa's too.
SYSTEMS: Mapping[System, SpecialTokens] = {
    "bert": SpecialTokens(
        tokens=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        roles={"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
        frame=_BERT_FRAME,
    ),
    "albert": SpecialTokens(
        tokens=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
        frame=_BERT_FRAME,
    ),
    "xlnet": SpecialTokens(
        tokens=("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>"},
        frame=("$A:0 <sep>:0 <cls>:2", "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"),
        padding_side="left",
    ),
    "roberta": SpecialTokens(
        tokens=("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        roles={"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"},
        frame=("<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0"),
        segments=False,
    ),
    "elmo": SpecialTokens(
        tokens=("<S>", "</S>", "<UNK>"),
        roles={"unk": "<UNK>", "cls": "<S>", "sep": "</S>"},
        frame=("<S>:0 $A:0 </S>:0", "<S>:0 $A:0 </S>:0 $B:0 </S>:0"),
        segments=False,
    ),
    "gpt": SpecialTokens(
        tokens=("<|endoftext|>",), roles={"unk": "<unk>", "sep": "<|endoftext|>"}, last_id=True, segments=False
    ),
}


def system_of(vocabulary: Mapping[str, int]) -> System:
    """The first system of the table whose special tokens are all in a vocabulary.

    One that holds none of them (GPT-1's, a bare list of words) is used as GPT's is: text and nothing around it.
    """
    found = (name for name, special in SYSTEMS.items() if all(token in vocabulary for token in special.tokens))
    return next(found, "gpt")


def batch_sequences(backend: Any, system: System) -> None:  # noqa: ANN401 (tokenizers.Tokenizer)
    """Have a tokenizer put the system's special tokens around texts, as transformers expects of the file."""
    from tokenizers import processors

    special = SYSTEMS[system]
    if special.frame is None:
        return
    single, pair = special.frame
    names = [(token, backend.token_to_id(token)) for token in special.tokens if token in single]
    frame = processors.TemplateProcessing(single=single, pair=pair, special_tokens=names)
    byte_level = type(backend.pre_tokenizer).__name__ == "ByteLevel"
    trim = [processors.ByteLevel(trim_offsets=True)] if byte_level else []
    backend.post_processor = processors.Sequence([*trim, frame]) if trim else frame
