"""A Ray cluster for as long as it is needed: the one RAY_ADDRESS names, or one started on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spanlab.errors import MissingExtraError


@contextmanager
def ray_cluster(cpus: int | None) -> Iterator[Any]:
    """The `ray` module, connected; a cluster started here has `cpus` CPUs (None: all there are) and ends with it.

    A connection that the caller's program has made already is used and left as it is.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "--engine ray") from None
    if ray.is_initialized():
        yield ray
        return
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False)
    else:
        ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
