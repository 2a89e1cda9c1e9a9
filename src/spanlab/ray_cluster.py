"""A connection to a Ray cluster: the one at RAY_ADDRESS, or a local one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spanlab.errors import MissingExtraError


@contextmanager
def ray_cluster(cpus: int | None) -> Iterator[Any]:
    """The `ray` module, connected; a local cluster has `cpus` CPUs (None: all) and ends with the context.

    An existing connection of the calling program is used and left open.
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
