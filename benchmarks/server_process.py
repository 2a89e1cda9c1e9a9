"""Servers as processes of their own: started until they answer, watched from outside, and ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class ServerProcess:
    """A server that answers on a port of this machine."""

    process: "subprocess.Popen[bytes]"
    port: int

    def cpu_seconds(self) -> float:
        """Processor time of the server and its workers: what a request costs, however busy the machine is."""
        return sum(int(one[11]) + int(one[12]) for one in self._statistics()) / _TICKS

    def memory_mb(self) -> float:
        """Resident memory of the server and its workers."""
        return sum(int(one[21]) for one in self._statistics()) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _statistics(self) -> Iterator[list[str]]:
        """The fields of /proc/PID/stat behind the name, of each process of the session."""
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            if int(fields[3]) == self.process.pid:
                yield fields


@contextmanager
def started(
    command: Sequence[str], port: int, *, threads: int, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """`python -m COMMAND` with so many threads, from when it answers on its port."""
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **(environment or {}),
    }
    # Workers of a server end with its session.
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, **variables},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _await(process, port, " ".join(command))
        yield ServerProcess(process=process, port=port)
    finally:
        _end(process)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _await(process: "subprocess.Popen[bytes]", port: int, name: str) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start") from None
            time.sleep(0.2)
        else:
            return


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
