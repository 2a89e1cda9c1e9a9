"""Mutations of a file: of its bytes, of its lines, and of the tree of values where it is JSON."""

import json
import random
from collections.abc import Callable
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.5, 1e308, float("nan")),
    *(float("inf"), float("-inf"), "", "x", "../x", "/etc/passwd", "\x00", "\x1b[2J", "\ud800", "é" * 50, "x" * 5000),
    *([], {}, [None], [[]], [[[[]]]], {"a": 1}, [1, 2], {"": ""}, ["x"] * 200, {str(n): n for n in range(50)}),
)
TOKENS = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n\n", b"\t", b'"', b"'", b"\\ud800"),
    *(b"[" * 2000, b'{"a":' * 500, b"9" * 5000, b"-1", b"1e999", b"NaN", b"Infinity", b"null", b"*a", b"&a [*a]"),
    *(b"!!int x", b"!!python/object:os.system", b"2024-99-99", b"\\UFFFFFFFF", b",", b":", b"]", b"}", b"<e1>", b"#"),
    *("\u202e".encode(), "\u2028".encode(), b"-----", b"0" * 400, b"x" * 70_000),
)


def mutate(data: bytes, rng: random.Random, *, others: tuple[bytes, ...] = ()) -> bytes:
    """One to four mutations of a file's content; `others` are files whose parts may be spliced in."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = _mutate_once(data, rng, others)
    return data


def _mutate_once(data: bytes, rng: random.Random, others: tuple[bytes, ...]) -> bytes:
    if rng.random() < 0.5:
        changed = _mutate_json(data, rng)
        if changed is not None:
            return changed
    mutation: Callable[[bytes, random.Random], bytes] = rng.choice(
        (_flip_bits, _truncate, _duplicate, _delete, _insert, _insert, _shuffle_lines, _reencode, _digits)
    )
    if others and rng.random() < 0.1:
        return _splice(data, rng.choice(others), rng)
    return mutation(data, rng)


def _flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    # The first bytes hold headers and lengths, where damage does most.
    reach = min(len(changed), rng.choice((16, 256, 1 << 30)))
    for _ in range(rng.choice((1, 1, 2, 8)) if changed else 0):
        changed[rng.randrange(reach)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _part(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 30, 400)))


def _duplicate(data: bytes, rng: random.Random) -> bytes:
    start, stop = _part(data, rng)
    return data[:stop] + data[start:stop] * rng.choice((1, 2, 50)) + data[stop:]


def _delete(data: bytes, rng: random.Random) -> bytes:
    start, stop = _part(data, rng)
    return data[:start] + data[stop:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(data) + 1)
    return data[:position] + rng.choice(TOKENS) + data[position:]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    start, stop = _part(other, rng)
    return data[: rng.randrange(len(data) + 1)] + (other[start:] if rng.random() < 0.5 else other[start:stop])


def _shuffle_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    index = rng.randrange(len(lines))
    action = rng.randrange(4)
    if action == 0:
        rng.shuffle(lines)
    elif action == 1:
        lines.insert(rng.randrange(len(lines)), lines[index])
    elif action == 2:
        del lines[index]
    else:
        lines[index] = lines[index][: rng.randrange(len(lines[index]) + 1)]
    return b"\n".join(lines)


def _reencode(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return data.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\n\n", b"")))
    return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "latin-1", "utf-8-sig", "utf-32")), "replace")


def _digits(data: bytes, rng: random.Random) -> bytes:
    """Another number in the place of one."""
    places = [index for index, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if not places:
        return _insert(data, rng)
    place = rng.choice(places)
    number = rng.choice((b"0", b"-1", b"99999999", b"1000000000000", b"9" * 30, b"9" * 5000, b"1.5", b"NaN", b"x"))
    return data[:place] + number + data[place + 1 :]


def _mutate_json(data: bytes, rng: random.Random) -> bytes | None:
    """A changed value, key or item in a JSON document, or in one line of JSON lines; None where it is neither."""
    lines = data.split(b"\n") if len(data) < 200_000 else [data]
    index = rng.randrange(len(lines))
    for text, rebuild in (
        (data, lambda changed: changed),
        (lines[index], lambda changed: b"\n".join([*lines[:index], changed, *lines[index + 1 :]])),
    ):
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(tree, dict | list) and tree:
            changed: bytes = json.dumps(_change_tree(tree, rng)).encode()
            return rebuild(changed)  # type: ignore[no-untyped-call]
    return None


def _change_tree(tree: Any, rng: random.Random) -> Any:
    holder, depth = tree, rng.randrange(6)
    for _ in range(depth):
        children = list(holder.values()) if isinstance(holder, dict) else holder
        inner = [child for child in children if isinstance(child, dict | list) and child]
        if not inner:
            break
        holder = rng.choice(inner)
    value, action = rng.choice(VALUES), rng.randrange(5)
    if isinstance(holder, dict):
        key = rng.choice(list(holder))
        if action == 0:
            del holder[key]
        elif action == 1:
            holder[rng.choice((*holder, "extra", "", "\x00"))] = value
        else:
            holder[key] = value
    else:
        position = rng.randrange(len(holder))
        if action == 0:
            del holder[position]
        elif action == 1:
            holder.insert(position, value)
        else:
            holder[position] = value
    return tree
