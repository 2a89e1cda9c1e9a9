"""The energy of a run by RAPL, the counters of Intel and AMD processors under Linux, where they may be read.

They count the joules of a whole processor package, whoever uses it; on a machine that does other things as well, the
figure is an upper bound. Usually only root may read them: without a readable counter there is no figure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spanlab.atomic_io import write_json

_RAPL = Path("/sys/class/powercap")


@contextmanager
def measured_joules(file: Path, *, whole: bool, counters: Path = _RAPL) -> Iterator[None]:
    """Context of a run; writes its joules to `file`. Of an interrupted run (not `whole`) there is no figure."""
    before = _read(counters)
    file.unlink(missing_ok=True)
    yield
    after = _read(counters)
    if whole and before and before.keys() == after.keys():
        joules = sum(_passed(before[name], after[name], counters / name) for name in before)
        write_json(file, {"joules": round(joules, 3)})


def _read(counters: Path) -> dict[str, int]:
    """Microjoules by package; empty if a counter cannot be read."""
    try:
        packages = [path for path in sorted(counters.glob("*-rapl:*")) if path.name.count(":") == 1]
        return {path.name: int((path / "energy_uj").read_text()) for path in packages}
    except (OSError, ValueError):
        return {}


def _passed(before: int, after: int, package: Path) -> float:
    """Joules between two readings of a counter that starts again at its maximum."""
    if after >= before:
        return (after - before) / 1e6
    try:
        largest = int((package / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        return 0.0
    return (after - before + largest) / 1e6
