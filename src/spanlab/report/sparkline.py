"""A curve in one line of a terminal."""

import numpy as np

from spanlab.report.run_history import Numbers

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Numbers, width: int = 48) -> str:
    """Means of as many stretches as fit, from the lowest bar to the highest."""
    stretches = np.array_split(values, min(width, len(values)))
    means = np.array([stretch.mean() for stretch in stretches])
    low, high = means.min(), means.max()
    heights = (means - low) / (high - low) if high > low else np.zeros(len(means))
    return "".join(_BARS[round(height * (len(_BARS) - 1))] for height in heights.tolist())
