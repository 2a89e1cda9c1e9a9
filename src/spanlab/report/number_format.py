"""Numbers, durations and sizes as short text, for tables and charts."""

import math


def short(value: float) -> str:
    """Three significant digits: 3.21, 9.8k, 1e-4."""
    size = abs(value)
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 1e-3:
        return f"{value:.3g}"
    return scientific(value)


def scientific(value: float) -> str:
    """Two digits and an exponent: 1e-4, 2.5e-3."""
    digits, power = f"{value:.1e}".split("e")
    return f"{digits.removesuffix('.0')}e{int(power)}" if value else "0"


def share(value: float) -> str:
    """A ratio as a percentage."""
    return f"{100 * value:.3g} %"


def duration(seconds: float) -> str:
    """The two largest units: 2 h 5 min, 21 min 4 s, 8.3 s."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2])


def size(count: int) -> str:
    """A number of bytes: 1.5 GB, 20 kB."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:.3g} {unit}"
    return f"{count} bytes"


def plain(value: object) -> str:
    """A value of any type without brackets and quotes."""
    if isinstance(value, float):
        return short(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    return str(value)
