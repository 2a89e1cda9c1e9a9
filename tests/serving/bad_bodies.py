"""A generator of requests that are wrong in every way a body can be; the same for the same seed."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.serving.servers import QUESTION, TEXT

PATHS = (
    *("/v1/names", "/v1/who", "/v1/topics", "/v1/alike", "/v1/all", "/v1/fill", "/v1/embeddings", "/v1/nothing"),
    *("/embed", "/rerank", "/tokenize"),
)
GOOD: tuple[Any, ...] = (
    TEXT,
    {"text": TEXT},
    QUESTION,
    {"text_a": TEXT, "text_b": TEXT},
    {"text": TEXT, "question": "Who?"},
    {"text": "Anna sold [MASK].", "top": 2},
    {"input": [TEXT], "encoding_format": "float"},
    {"inputs": TEXT, "normalize": True},
    {"query": "Who?", "texts": [TEXT], "raw_scores": False},
    [TEXT, {"text": TEXT}],
)
_ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1e308,
        2**63 - 1,
        "",
        " ",
        "\x00",
        "a\x00b",
        "\u202e",
        "\ufeff",
        "\U0010ffff",
        "é" * 300,
    ),
    *([], {}, [[]], [{}], [None], {"": ""}, {"text": {}}, [[["a"]]], "[MASK]", "[CLS] [SEP]", "\ufffd", "a" * 5000),
)
_RAW = (
    b"",
    b" ",
    b"{",
    b"[",
    b'"',
    b"nul",
    b"NaN",
    b"[NaN]",
    b'{"text": Infinity}',
    b'{"text": -Infinity}',
    b'{"text": 1e999}',
    b'{"text": ' + b"9" * 5000 + b"}",
    b"[" * 200_000,
    b'{"a":' * 50_000,
    b"[" * 99 + b"]" * 99,
    b"[" * 101 + b"]" * 101,
    b'"\\ud800"',
    b'{"text": "\\udfff x"}',
    b'{"\\ud800": 1}',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b"\x00",
    b"\xef\xbb\xbf" + b'"a"',
    b'{"text": "a", "text": "b"}',
    b'"a" "b"',
    b"'a'",
    b'{"text": "a",}',
    b"[" + b"{}," * 20_000 + b"{}]",
    b"[" + b'"",' * 3_000 + b'""]',
    b'"' + b"a" * 300_000 + b'"',
    b'"' + "Anna 漢字 ".encode() * 3_000 + b'"',
    b'{"text": "' + b"\\u0000" * 1_000 + b'"}',
    b"1" * 100_000,
    b"-",
    b"0x10",
    b"<xml/>",
    b"text=a&b=c",
)


def bad_requests(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Paths with bodies, most of them wrong."""
    draw = random.Random(seed)
    for number in range(count):
        path = draw.choice(PATHS)
        if number < 2 * len(_RAW):
            yield path, _RAW[number % len(_RAW)]
        else:
            yield path, draw.choice(_MAKERS)(draw)


def _changed_value(draw: random.Random) -> bytes:
    """A good body with one value replaced."""
    return json.dumps(_change(draw, draw.choice(GOOD))).encode()


def _change(draw: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and draw.random() < 0.8:
        key = draw.choice(list(value))
        kind = draw.random()
        if kind < 0.2:
            return {name: item for name, item in value.items() if name != key}
        if kind < 0.4:
            return {**value, draw.choice(["txt", "label", "id", "\x00", "text "]): draw.choice(_ODD)}
        return {**value, key: _change(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.8:
        return [*value[:-1], _change(draw, value[-1])]
    return draw.choice(_ODD)


def _damaged_bytes(draw: random.Random) -> bytes:
    """A good body with some bytes cut, repeated or replaced."""
    data = bytearray(json.dumps(draw.choice(GOOD), ensure_ascii=draw.random() < 0.5).encode())
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.randint(0, 6))
        data[start:end] = draw.choice(
            [b"", bytes([draw.randrange(256)]), bytes(data[start:end]) * 3, b"\\u", b"[", b"}"]
        )
    return bytes(data)


def _nested(draw: random.Random) -> bytes:
    depth = draw.choice([2, 50, 98, 100, 102, 2000])
    return b"[" * depth + json.dumps(draw.choice(GOOD)).encode() + b"]" * depth


def _noise(draw: random.Random) -> bytes:
    return bytes(draw.randrange(256) for _ in range(draw.randint(0, 60)))


_MAKERS: tuple[Callable[[random.Random], bytes], ...] = (
    _changed_value,
    _changed_value,
    _changed_value,
    _damaged_bytes,
    _nested,
    _noise,
)
