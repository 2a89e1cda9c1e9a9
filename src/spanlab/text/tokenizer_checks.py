"""Tokenizer files that nobody vouches for: what they may ask for, and how their failures reach the user.

`tokenizers` does what a file says. An id of 2^31 makes a table of as many rows; twenty replacements in a row turn one
letter into more text than there is memory for; a regular expression can fail on one text in a thousand, by a panic that
is no `Exception`. Growth is therefore bounded from the file's description, before anything is normalised.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spanlab.errors import InputError

MAX_ID = 10_000_000
_MAX_UNUSED = 1_000_000
"""Ids without a token: published vocabularies leave some hundreds free."""
_MAX_GROWTH = 64
"""How much longer a normalizer's replacements may make a text; each of the published ones at most doubles it."""
_MAX_INSERTED = 1_000
"""Characters that a normalizer may add to any text."""
_MAX_MAPPED_BYTES = 256
"""What a compiled map may turn one character into; 33 bytes in the maps of Unicode's normal forms."""


@contextmanager
def typed_failures(cause: str, path: Path | None = None) -> Iterator[None]:
    """Turn whatever `tokenizers` raises, the panics of Rust included, into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{cause}: {reason}", path=path) from None


def check_ids(vocabulary: Mapping[str, int], path: Path) -> None:
    """Raise where there is no token, or the ids need far more rows than there are tokens."""
    if not vocabulary:
        raise InputError("the tokenizer has no tokens", path=path)
    size = max(vocabulary.values()) + 1
    if size > MAX_ID or size > len(vocabulary) + _MAX_UNUSED:
        token = max(vocabulary, key=vocabulary.__getitem__)
        cause = f"token {token!r} has id {size - 1:,}, and there are {len(vocabulary):,} tokens"
        raise InputError(cause, path=path, fix=f"ids count from 0 and end below {MAX_ID:,}")


def check_description(description: Mapping[str, Any], path: Path) -> None:
    """Raise where a `tokenizer.json` would make texts far longer, in normalising or in decoding them."""
    for table in _character_maps(description.get("normalizer")):
        check_character_map(table, path)
    for section in ("normalizer", "decoder"):
        growth, inserted = _growth(description.get(section))
        if growth > _MAX_GROWTH or inserted > _MAX_INSERTED:
            cause = f"the {section} makes texts up to {min(growth, 10**9):,} times as long, and {inserted:,} characters"
            raise InputError(f"{cause} longer", path=path, fix=f"a {section} may do so {_MAX_GROWTH} times at most")


def check_character_map(table: bytes, path: Path) -> None:
    """Raise where a compiled map of SentencePiece turns a character into a long text.

    The map is a trie, with its size in the first four bytes, and the texts it leads to, each ended by a zero.
    """
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    longest = max(map(len, texts.split(b"\0")))
    if longest > _MAX_MAPPED_BYTES:
        raise InputError(f"the normalizer's map has a text of {longest:,} bytes for one character", path=path)


def _growth(step: Any) -> tuple[int, int]:  # noqa: ANN401 (whatever the file holds)
    """The factor by which a step may lengthen a text, and the characters it adds to any; other types fail later."""
    if not isinstance(step, Mapping):
        return 1, 0
    if step.get("type") == "Sequence":
        return _sequence_growth([*_items(step, "normalizers"), *_items(step, "decoders")])
    content = step.get("content", step.get("prepend", ""))
    length = len(content) if isinstance(content, str) else 0
    if step.get("type") == "Prepend":
        return 1, length
    if step.get("type") != "Replace" or not length:
        return 1, 0
    pattern = step.get("pattern")
    found = pattern.get("String", "") if isinstance(pattern, Mapping) else pattern
    if isinstance(found, str) and found:
        return max(1, -(-length // len(found))), 0
    return length + 1, length  # an expression can match nothing, between any two characters


def _sequence_growth(steps: list[Any]) -> tuple[int, int]:
    growth, inserted = 1, 0
    for factor, more in map(_growth, steps):
        growth, inserted = min(growth * factor, 10**12), min(inserted * factor + more, 10**12)
    return growth, inserted


def _items(step: Mapping[str, Any], key: str) -> list[Any]:
    items = step.get(key)
    return items if isinstance(items, list) else []


def _character_maps(step: Any) -> Iterator[bytes]:  # noqa: ANN401 (whatever the file holds)
    """The compiled maps in the description of a normalizer."""
    if isinstance(step, Mapping):
        for inner in _items(step, "normalizers"):
            yield from _character_maps(inner)
        table = step.get("precompiled_charsmap")
        if isinstance(table, str):
            try:
                yield base64.b64decode(table)
            except (binascii.Error, ValueError):  # `tokenizers` says so
                return
