"""Whether a tokenizer treats what lies between spaces separately: tokens(a + " b") = tokens(a) + tokens(" b").

Where it does, a word met before needs no tokenizer. It is read off the parts a tokenizer is made of; a part not known
here makes the answer no, which costs speed and nothing else.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_MODELS = {"WordPiece", "WordLevel", "BPE", "Unigram"}
_NORMALIZERS = {
    "BertNormalizer",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Replace",
    "Strip",
    "StripAccents",
}
_CUT_AT_SPACES = {"BertPreTokenizer", "ByteLevel", "Metaspace", "Whitespace", "WhitespaceSplit"}
_CUT_FURTHER = {"Digits", "Punctuation"}

Part = Mapping[str, Any]


def separates_at_spaces(tokenizer_file: Path) -> bool:
    """Whether the tokenizer of a `tokenizer.json` never looks across a space."""
    description = json.loads(tokenizer_file.read_text(encoding="utf-8"))
    cuts = list(_leaves(description.get("pre_tokenizer"), "pretokenizers"))
    return (
        description["model"]["type"] in _MODELS
        and not description["model"].get("dropout")
        and all(_keeps_spaces_apart(part) for part in _leaves(description.get("normalizer"), "normalizers"))
        and all(part["type"] in _CUT_AT_SPACES | _CUT_FURTHER for part in cuts)
        and any(_cuts_at_spaces(part) for part in cuts)
        and not any(" " in token["content"] or token["rstrip"] for token in description.get("added_tokens", ()))
    )


def _leaves(part: Part | None, children: str) -> Iterator[Part]:
    if part is None:
        return
    if part["type"] == "Sequence":
        for child in part[children]:
            yield from _leaves(child, children)
    else:
        yield part


def _keeps_spaces_apart(part: Part) -> bool:
    if part["type"] == "Replace":
        pattern = part["pattern"]
        text: str = pattern.get("String", " ")
        return pattern.get("Regex") == " {2,}" or " " not in text + part["content"]
    if part["type"] == "Strip":
        return not part["strip_left"]
    return part["type"] in _NORMALIZERS


def _cuts_at_spaces(part: Part) -> bool:
    if part["type"] == "ByteLevel":
        return bool(part.get("use_regex", True))
    if part["type"] == "Metaspace":
        return bool(part.get("split", True))
    return part["type"] in _CUT_AT_SPACES
