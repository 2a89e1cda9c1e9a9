"""Where a run may tell its findings beside `metrics.jsonl`: TensorBoard, W&B, MLflow and trackio.

Each is imported when it is asked for and not before, and none may end a run: what was found is in `metrics.jsonl` in
any case.
"""

from spanlab.training.trackers.opening import open_trackers
from spanlab.training.trackers.tracker import TrackedRun, Tracker

__all__ = ["TrackedRun", "Tracker", "open_trackers"]
