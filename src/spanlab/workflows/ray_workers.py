"""Any run under Ray Train: a function and its job go in, each worker does what a process of torchrun does.

Ray starts the workers, joins them into a process group, and starts all of them anew when one is lost; the run then goes
on from its newest checkpoint. What the user has to know comes back as it would from a run on this machine: the result,
an error in one line, Ctrl-C. The run folder and the data must be on storage that every worker sees under the same path.
"""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch.distributed as dist

from spanlab.errors import InputError, MissingExtraError, RunError, SpanlabError
from spanlab.ray_cluster import ray_cluster
from spanlab.training.config import TrainingConfig
from spanlab.training.interrupts import Interrupts, request_stop
from spanlab.training.run_folder import CONFIG, RunFolder
from spanlab.workflows.ray_signals import RemoteRunSignals
from spanlab.workflows.run import RunResult

RESTARTS = 3
STARTS = 5
"""How often Ray tries, for a minute each time, to find room for all workers: a cluster may have to grow first."""
LISTEN_SECONDS = 0.5


class RunJob(Protocol):
    """What a job must tell: the run folder, and what may be done with a run that is there."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def out(self) -> str:
        """The run folder."""

    @property
    def resume(self) -> bool:
        """Go on with the run in `out`."""

    @property
    def overwrite(self) -> bool:
        """Replace the run in `out`."""


Job = TypeVar("Job", bound=RunJob)
ConfigFile = tuple[int, int] | None
"""What tells one writing of a config file from another; None where there is no file."""


@dataclass(frozen=True, kw_only=True)
class _Orders(Generic[Job]):
    """What every worker is told."""

    function: Callable[[Job], RunResult]
    job: Job
    desk: RemoteRunSignals
    directory: str
    """Relative paths are meant from here."""
    config_before: ConfigFile
    """The config file of the run folder before any worker began."""


def run_workers(
    function: Callable[[Job], RunResult], job: Job, training: TrainingConfig, *, workers: int, restarts: int = RESTARTS
) -> RunResult:
    """Run `function(job)` in each of `workers` workers of a Ray cluster, and give back what the first one returns.

    Args:
        function: what one process of the run does; importable on every machine of the cluster.
        job: a frozen dataclass; after a lost worker its run is resumed.
        training: says on what device, and with how many threads a worker.
        workers: how many processes.
        restarts: how often lost workers are replaced.
    """
    threads = training.threads or _threads_begun_with(job, workers) or 1
    with _folder_beside(Path(job.out)) as storage, ExitStack() as afterwards, ray_cluster(workers * threads) as ray:
        desk = RemoteRunSignals.open()
        orders = _Orders(
            function=function, job=job, desk=desk, directory=str(Path.cwd()), config_before=_config_file(job)
        )
        gpu = training.device == "cuda" or (training.device == "auto" and "GPU" in ray.cluster_resources())
        fit = _prepare(orders, storage, workers=workers, threads=threads, gpu=gpu, restarts=restarts)
        # In the main thread Ray would take Ctrl-C for itself, and end without the state being saved.
        fitting = _Fitting(fit)
        afterwards.callback(fitting.join)  # a cluster that was started here is gone by then, and all its work with it
        try:
            return _follow(fitting, desk, restarts)
        finally:
            desk.close()


def _threads_begun_with(job: RunJob, workers: int) -> int:
    """Of each worker, where a run of as many is resumed; else 0."""
    begun = RunFolder(job.out).initial_parallelism() if job.resume else None
    return 0 if begun is None or begun.processes != workers else begun.threads


def _prepare(
    orders: _Orders[Job], storage: Path, *, workers: int, threads: int, gpu: bool, restarts: int
) -> Callable[[], object]:
    """What starts the workers and returns when they are done."""
    try:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
    except ImportError:  # Ray without its training part
        raise MissingExtraError("ray", "--engine ray") from None
    scaling = ScalingConfig(
        num_workers=workers, use_gpu=gpu, resources_per_worker={"CPU": threads} | ({"GPU": 1} if gpu else {})
    )
    failures = FailureConfig(max_failures=restarts, controller_failure_limit=STARTS - 1)
    trainer = TorchTrainer(
        lambda: _work(orders),
        torch_config=TorchConfig(backend="cuda:nccl,cpu:gloo" if gpu else "gloo"),
        scaling_config=scaling,
        run_config=RunConfig(name="run", storage_path=str(storage), failure_config=failures),
    )
    fit: Callable[[], object] = trainer.fit
    return fit


class _Fitting(threading.Thread):
    """Waits for Ray in a thread of its own, and keeps what went wrong."""

    def __init__(self, fit: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        self._fit = fit
        self.start()

    def run(self) -> None:
        try:
            self._fit()
        except (Exception, SystemExit) as error:  # SystemExit: the connection was closed
            self.failure = error


def _follow(fitting: _Fitting, desk: RemoteRunSignals, restarts: int) -> RunResult:
    """Wait for the workers; pass signals on to them, and what they leave at the desk to the caller."""
    with Interrupts() as interrupts:
        while fitting.is_alive() and not isinstance(desk.read().outcome, Exception):
            if interrupts.received is not None:
                desk.ask_to_stop(interrupts.received)
            fitting.join(LISTEN_SECONDS)
    outcome = desk.read().outcome
    if isinstance(outcome, Exception):
        raise outcome
    if outcome is not None:
        return outcome
    if interrupts.received == signal.SIGINT:
        raise KeyboardInterrupt
    if interrupts.received is not None:
        raise SystemExit(128 + interrupts.received)
    raise _lost(fitting.failure, restarts)


def _lost(failure: BaseException | None, restarts: int) -> RunError:
    """The last failure in words; Ray's own account of it is its cause."""
    cause = failure or RuntimeError("the workers ended without a result")
    of_workers: dict[int, Exception] = getattr(cause, "worker_failures", {})
    # A worker that lost its neighbour fails too: the one that has no traceback of its own is nearer to the reason.
    reasons = sorted((str(reason) for reason in of_workers.values()), key=lambda text: "Traceback" in text)
    lines = (reasons[0] if reasons else str(cause)).strip().splitlines()
    reason = lines[-1] if "Traceback" in lines[0] else lines[0]
    error = RunError(f"the workers failed, after {restarts} restarts: {reason}; --resume goes on from what was saved")
    error.__cause__ = cause
    return error


@contextmanager
def _folder_beside(out: Path) -> Iterator[Path]:
    """A folder for Ray's own files, for the while; Ray makes sure by it that all workers share the storage."""
    parent = out.resolve().parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-ray-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _work(orders: _Orders[Job]) -> None:
    """What each worker does."""
    desk, first = orders.desk, dist.get_rank() == 0
    try:
        _enter(orders.directory)
        job = _from_the_first(_job_as_it_stands(orders) if first else None)
        if job is None:
            return
        with _listening(desk) if first else nullcontext():
            result = orders.function(job)
        if first:
            desk.end(result)
    except (SpanlabError, RunError) as error:
        desk.end(error)
        raise  # the other workers wait for this one, unless Ray ends them
    except (KeyboardInterrupt, SystemExit):
        return  # as was asked for, with the state saved


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        fix = "start the run in a folder on storage that every machine of the cluster shares"
        raise InputError(f"a worker cannot enter it ({error.strerror})", path=directory, fix=fix) from None


def _job_as_it_stands(orders: _Orders[Job]) -> Job | None:
    """The job at first; once it has begun its run, going on with that run; None when nothing is left to do."""
    word = orders.desk.read()
    if word.closed or word.stop_signal is not None or word.outcome is not None:
        return None  # Ray restarts whatever has failed
    begun = _config_file(orders.job) not in {None, orders.config_before}
    return replace(orders.job, resume=True, overwrite=False) if begun else orders.job


def _from_the_first(job: Job | None) -> Job | None:
    """The first worker's job, to all of them: each for itself might see another moment."""
    jobs = [job]
    dist.broadcast_object_list(jobs, src=0)
    return jobs[0]


def _config_file(job: RunJob) -> ConfigFile:
    try:
        found = (Path(job.out) / CONFIG).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


@contextmanager
def _listening(desk: RemoteRunSignals) -> Iterator[None]:
    """Meanwhile, hear at the desk that the run is to stop; when the desk is gone, end at once."""
    done = threading.Event()

    def listen() -> None:
        while not done.wait(LISTEN_SECONDS):
            word = desk.read()
            if word.closed and not done.is_set():
                os._exit(1)
            if word.stop_signal is not None:
                request_stop(word.stop_signal)

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        done.set()
