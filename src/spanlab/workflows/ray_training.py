"""Pre-training on the workers of a Ray cluster; the run is the one that torchrun would make."""

from spanlab.training.run_folder import RunFolder
from spanlab.workflows.pretrain import PretrainingJob, open_corpora, run_job
from spanlab.workflows.ray_workers import RESTARTS, run_workers
from spanlab.workflows.run import RunResult


def run_on_ray(job: PretrainingJob, *, workers: int, restarts: int = RESTARTS) -> RunResult:
    """Train on `workers` workers of the cluster that RAY_ADDRESS names, or of one started here for the while.

    Args:
        job: as for `run_job`, which every worker runs.
        workers: how many processes.
        restarts: how often lost workers are replaced, and the run goes on from its newest checkpoint.
    """
    # What every worker would refuse is refused before a cluster is started for it.
    RunFolder(job.out).check(resume=job.resume, overwrite=job.overwrite)
    open_corpora(job.data)
    return run_workers(run_job, job, job.recipe.training, workers=workers, restarts=restarts)
