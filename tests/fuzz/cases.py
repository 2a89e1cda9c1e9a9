"""One case: a file is mutated, its reader called, the file restored; the outcome has its time and memory."""

import contextlib
import io
import random
import re
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spanlab.errors import RunError, SpanlabError, escape
from tests.fuzz.mutations import mutate
from tests.fuzz.targets import OUT, Target

SECONDS, MEGABYTES = 5.0, 1000
_WRONG_PATH = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)
"""What the command line reports with exit code 2."""


class TimedOutError(BaseException):
    """The case computes for too long."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a case."""

    target: str
    file: str
    result: str
    """`read`, `refused`, or the name of what escaped."""
    seconds: float
    megabytes: float
    detail: str = ""
    """Of an escape: where, and its traceback."""

    @property
    def escaped(self) -> bool:
        """Whether it is a fault of the product."""
        return self.result not in {"read", "refused"}


def choose(folder: Path, targets: list[Target], seed: int, number: int) -> tuple[Target, str, bytes]:
    """The mutated file of a case, a pure function of the valid files, the seed and the case's number."""
    rng = random.Random(f"{seed}/{number}")
    target = rng.choices(targets, [target.weight for target in targets])[0]
    file = rng.choice(target.files)
    other = rng.choice(rng.choice(targets).files)
    data = mutate((folder / file).read_bytes(), rng, others=((folder / other).read_bytes(),))
    return target, file, data


def run_case(folder: Path, target: Target, file: str, data: bytes) -> Outcome:
    """Read the mutated file in the place of the valid one."""
    original = (folder / file).read_bytes()
    (folder / file).write_bytes(data)
    _reset_peak()
    before, start = _memory_mb("VmRSS"), time.process_time()
    try:
        result, detail = _call(target, folder)
    finally:
        (folder / file).write_bytes(original)
        shutil.rmtree(folder / OUT, ignore_errors=True)
    seconds, megabytes = time.process_time() - start, max(0.0, _memory_mb("VmHWM") - before)
    if result in {"read", "refused"} and megabytes > MEGABYTES:
        result, detail = "memory", f"{megabytes:.0f} MB"
    return Outcome(target=target.name, file=file, result=result, seconds=seconds, megabytes=megabytes, detail=detail)


def _call(target: Target, folder: Path) -> tuple[str, str]:
    try:
        with _watchdog(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            target.call(folder)
    except SpanlabError as error:
        message = str(error)
        if len(message) > 2000 or escape(message) != message:
            return "message", f"{len(message)} characters: {message[:500]!r}"
        return "refused", ""
    except (*_WRONG_PATH, RunError):
        return "refused", ""
    except TimedOutError:
        return "hang", traceback.format_exc()
    except BaseException as error:
        return type(error).__name__, traceback.format_exc()
    return "read", ""


@contextlib.contextmanager
def _watchdog() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimedOutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of computing, whatever else the machine does
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _memory_mb(name: str) -> float:
    match = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(match[1]) / 1000 if match else 0.0


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def where(detail: str) -> str:
    """The last line of the product in a traceback, which tells faults apart."""
    frames = re.findall(r'File "[^"]*/spanlab/([^"]+)", line (\d+)', detail)
    return ":".join(frames[-1]) if frames else detail.strip().split("\n")[-1][:80]
