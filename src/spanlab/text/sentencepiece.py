"""Reading a SentencePiece model file (`spiece.model`) without the libraries that wrote it.

The bytes of the file enter; its pieces with scores and types, and its normalization table leave. The file is one
protocol-buffers message of which only five fields are needed, so they are parsed here: no dependency, and nothing in
the file is executed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanlab.errors import InputError

_UNIGRAM = 1
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
"""Types of pieces."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """The content of a `spiece.model`."""

    pieces: tuple[tuple[str, float], ...]
    """Piece and score, in the order of the ids."""
    control: tuple[str, ...]
    """Pieces that never match text, such as [CLS]."""
    unknown_id: int
    normalization: bytes
    """The compiled character map of the normalizer; empty for none."""


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """The model in a file."""
    try:
        return parse_sentencepiece(path.read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), path=path) from None
    except (IndexError, struct.error, UnicodeDecodeError, TypeError, KeyError) as error:
        raise InputError("not a SentencePiece model", path=path, fix="download it again") from error
    except ValueError as error:
        raise InputError(str(error), path=path) from None


def parse_sentencepiece(message: bytes) -> SentencePieceModel:
    """The model in the bytes of a file."""
    pieces: list[tuple[str, float]] = []
    control: list[str] = []
    unknown_id, model_type, normalization = 0, _UNIGRAM, b""
    for field, value in _fields(message):
        if field == 1:  # a piece: its text, score and type
            piece = dict(_fields(value))
            text = piece[1].decode("utf-8")
            piece_type = piece.get(3, _NORMAL)
            control += [text] * (piece_type == _CONTROL)
            unknown_id = len(pieces) if piece_type == _UNKNOWN else unknown_id
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append((text, round(score, 9)))  # the precision of 32 bits, and short enough to write
        elif field == 2:  # how it was trained
            model_type = dict(_fields(value)).get(3, _UNIGRAM)
        elif field == 3:  # the normalizer
            normalization = dict(_fields(value)).get(2, b"")
    if not pieces:
        raise IndexError
    if model_type != _UNIGRAM:
        raise ValueError("not a unigram model; only SentencePiece models of the unigram type are read")
    return SentencePieceModel(
        pieces=tuple(pieces), control=tuple(control), unknown_id=unknown_id, normalization=normalization
    )


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of each field: an int, or the bytes of a string, a message or a float."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        wire = key & 7
        if wire == _VARINT:
            value, position = _varint(message, position)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            length, position = _varint(message, position)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}[wire]
        if position + length > len(message):
            raise IndexError
        yield key >> 3, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
