"""A picture of a matrix of small numbers, as PNG bytes, with no other library than zlib."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]


def palette_png(cells: NDArray[np.integer], palette: Sequence[Colour]) -> bytes:
    """One pixel a cell (rows, columns), in the colour that the cell's number has in the palette."""
    rows, columns = cells.shape
    # Every row begins with the number of its filter, 0 for none.
    lines = np.zeros((rows, columns + 1), np.uint8)
    lines[:, 1:] = cells
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    colours = bytes(value for colour in palette for value in colour)
    parts = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
