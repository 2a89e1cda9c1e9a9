"""Pre-training on the workers of a Ray cluster; each worker does what a process of torchrun does.

Ray Train starts the workers, joins them into a process group, and restarts all of them when one is lost; the run is
then resumed from its newest checkpoint. Results, one-line errors and Ctrl-C reach the driver as in a local run. The run
folder and the data must be on storage that every worker sees under the same path.
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

import torch.distributed as dist

from spanlab.errors import InputError, MissingExtraError, RunError, SpanlabError
from spanlab.ray_cluster import ray_cluster
from spanlab.training.interrupts import Interrupts, request_stop
from spanlab.training.run_folder import CONFIG, RunFolder
from spanlab.workflows.pretrain import PretrainingJob, open_corpora, run_job
from spanlab.workflows.ray_signals import RemoteRunSignals
from spanlab.workflows.run import RunResult

RESTARTS = 3
STARTS = 5
"""Attempts of Ray, a minute each, to allocate all workers: a cluster may have to scale up first."""
POLL_SECONDS = 0.5
ConfigStamp = tuple[int, int] | None
"""Inode and modification time of a run's config file; None without a file."""


@dataclass(frozen=True, kw_only=True)
class _WorkerArguments:
    """The arguments of every worker."""

    function: Callable[[PretrainingJob], RunResult]
    job: PretrainingJob
    signals: RemoteRunSignals
    directory: str
    """The working directory of the driver, which relative paths refer to."""
    config_before: ConfigStamp
    """The config file of the run folder before the first worker started."""


def run_on_ray(
    job: PretrainingJob,
    *,
    workers: int,
    restarts: int = RESTARTS,
    function: Callable[[PretrainingJob], RunResult] = run_job,
) -> RunResult:
    """Train on workers of the cluster that RAY_ADDRESS names, or of a temporary local one.

    Args:
        job: as for `run_job`; after the loss of a worker its run is resumed.
        workers: number of processes.
        restarts: how often lost workers are replaced.
        function: what each worker runs; importable on every machine of the cluster. The result is that of rank 0.
    """
    # Invalid jobs are rejected before a cluster is started.
    RunFolder(job.out).check(resume=job.resume, overwrite=job.overwrite)
    open_corpora(job.data)
    training = job.recipe.training
    threads = training.threads or _initial_threads(job, workers) or 1
    with _storage_beside(Path(job.out)) as storage, ExitStack() as stack, ray_cluster(workers * threads) as ray:
        signals = RemoteRunSignals.open()
        arguments = _WorkerArguments(
            function=function, job=job, signals=signals, directory=str(Path.cwd()), config_before=_config_stamp(job)
        )
        gpu = training.device == "cuda" or (training.device == "auto" and "GPU" in ray.cluster_resources())
        fit = _build_trainer(arguments, storage, workers=workers, threads=threads, gpu=gpu, restarts=restarts)
        # In the main thread Ray would handle Ctrl-C itself, and end without a checkpoint.
        thread = _FitThread(fit)
        stack.callback(thread.join)  # after the shutdown of a local cluster, which ends the work of the thread
        try:
            return _wait(thread, signals, restarts)
        finally:
            signals.close()


def _initial_threads(job: PretrainingJob, workers: int) -> int:
    """Threads a worker of the run to be resumed, if it was started with as many workers; else 0."""
    initial = RunFolder(job.out).initial_parallelism() if job.resume else None
    return 0 if initial is None or initial.processes != workers else initial.threads


def _build_trainer(
    arguments: _WorkerArguments, storage: Path, *, workers: int, threads: int, gpu: bool, restarts: int
) -> Callable[[], object]:
    """The `fit` of a Ray trainer, which starts the workers and returns when they are done."""
    try:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer
    except ImportError:  # Ray without Ray Train
        raise MissingExtraError("ray", "--engine ray") from None
    scaling = ScalingConfig(
        num_workers=workers, use_gpu=gpu, resources_per_worker={"CPU": threads} | ({"GPU": 1} if gpu else {})
    )
    failures = FailureConfig(max_failures=restarts, controller_failure_limit=STARTS - 1)
    trainer = TorchTrainer(
        lambda: _run_worker(arguments),
        torch_config=TorchConfig(backend="cuda:nccl,cpu:gloo" if gpu else "gloo"),
        scaling_config=scaling,
        run_config=RunConfig(name="run", storage_path=str(storage), failure_config=failures),
    )
    fit: Callable[[], object] = trainer.fit
    return fit


class _StoppedError(Exception):
    """The outcome of a run that was stopped by a signal, after its checkpoint."""


class _FitThread(threading.Thread):
    """Runs `fit` in a thread and keeps its error."""

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


def _wait(thread: _FitThread, signals: RemoteRunSignals, restarts: int) -> RunResult:
    """Wait for the workers; forwards Ctrl-C and SIGTERM to them, and their outcome to the caller."""
    with Interrupts() as interrupts:
        while thread.is_alive() and not isinstance(signals.read().outcome, Exception):
            if interrupts.received is not None:
                signals.request_stop(interrupts.received)
            thread.join(POLL_SECONDS)
    outcome = signals.read().outcome
    if isinstance(outcome, RunResult):
        return outcome
    if outcome is not None and not isinstance(outcome, _StoppedError):
        raise outcome
    if interrupts.received == signal.SIGINT:
        raise KeyboardInterrupt
    if interrupts.received is not None:
        raise SystemExit(128 + interrupts.received)
    raise _worker_error(thread.failure, restarts)


def _worker_error(failure: BaseException | None, restarts: int) -> RunError:
    """The last failure in one line, with Ray's exception as its cause."""
    cause = failure or RuntimeError("the workers ended without a result")
    failures: dict[int, Exception] = getattr(cause, "worker_failures", {})
    # A worker whose peer is lost fails too; the failure without a traceback is closer to the reason.
    reasons = sorted((str(reason) for reason in failures.values()), key=lambda text: "Traceback" in text)
    lines = (reasons[0] if reasons else str(cause)).strip().splitlines()
    reason = lines[-1] if "Traceback" in lines[0] else lines[0]
    error = RunError(f"the workers failed, after {restarts} restarts: {reason}; --resume continues from a checkpoint")
    error.__cause__ = cause
    return error


@contextmanager
def _storage_beside(out: Path) -> Iterator[Path]:
    """A temporary folder for Ray's own files; Ray verifies by it that all workers share the storage."""
    parent = out.resolve().parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}-ray-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_worker(arguments: _WorkerArguments) -> None:
    """Run the job on one worker; rank 0 reports the result, any rank an error."""
    signals, is_main = arguments.signals, dist.get_rank() == 0
    try:
        _change_directory(arguments.directory)
        # Rank 0 decides for all workers: each might see another state of the run folder.
        jobs = [_current_job(arguments) if is_main else None]
        dist.broadcast_object_list(jobs, src=0)
        job = jobs[0]
        if job is None:
            return
        with _poll_signals(signals) if is_main else nullcontext():
            result = arguments.function(job)
        if is_main:
            signals.end(result)
    except (SpanlabError, RunError) as error:
        signals.end(error)
        raise  # the other workers wait for this one until Ray ends them
    except (KeyboardInterrupt, SystemExit):  # as requested, after a checkpoint
        if is_main:
            # The driver need not wait for Ray, whose processes may have received the same Ctrl-C.
            signals.end(_StoppedError())


def _change_directory(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        fix = "start the run in a folder on storage that every machine of the cluster shares"
        raise InputError(f"a worker cannot enter the folder ({error.strerror})", path=directory, fix=fix) from None


def _current_job(arguments: _WorkerArguments) -> PretrainingJob | None:
    """The job, with `resume` if its run has started; None if the run is over and Ray has restarted a failed worker."""
    state = arguments.signals.read()
    if state.closed or state.stop_signal is not None or state.outcome is not None:
        return None
    started = _config_stamp(arguments.job) not in {None, arguments.config_before}
    return replace(arguments.job, resume=True, overwrite=False) if started else arguments.job


def _config_stamp(job: PretrainingJob) -> ConfigStamp:
    try:
        status = (Path(job.out) / CONFIG).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextmanager
def _poll_signals(signals: RemoteRunSignals) -> Iterator[None]:
    """Context in which a thread forwards stop signals to the run, and ends the process when the driver is gone."""
    done = threading.Event()

    def poll() -> None:
        while not done.wait(POLL_SECONDS):
            state = signals.read()
            if state.closed and not done.is_set():
                os._exit(1)
            if state.stop_signal is not None:
                request_stop(state.stop_signal)

    threading.Thread(target=poll, daemon=True).start()
    try:
        yield
    finally:
        done.set()
