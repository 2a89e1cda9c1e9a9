"""Pre-training from a recipe to a run folder: what `spanlab pretrain` and `spanlab.pretrain` do.

The same function runs in one process, in each process that torchrun starts, and in each worker of Ray Train.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from spanlab.atomic_io import readable_disk_errors
from spanlab.config import to_mapping
from spanlab.corpus.manifest import MANIFEST
from spanlab.errors import InputError
from spanlab.pretraining.build import WeightedCorpus, build_work
from spanlab.pretraining.recipe import Recipe, load_recipe
from spanlab.training.distributed import current_process, process_group
from spanlab.training.loop import Training
from spanlab.training.records import Record
from spanlab.training.run_folder import RunFolder
from spanlab.training.threads import choose_threads, restore_threads
from spanlab.workflows.fillings import SampleFillings
from spanlab.workflows.run import RunResult, run_training

OnStart = Callable[[Training[Any], tuple[str, ...]], None]
OnRecord = Callable[[Record], None]


@dataclass(frozen=True, kw_only=True)
class PretrainingJob:
    """Everything a pre-training run is asked for."""

    recipe: Recipe
    data: tuple[str, ...]
    """Prepared corpora, each `DIR` or `DIR:WEIGHT`."""
    out: str
    init: str | None = None
    resume: bool = False
    overwrite: bool = False


def pretrain(
    recipe: str | Path,
    *,
    data: str | Path | Sequence[str | Path],
    out: str | Path,
    init: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    on_record: OnRecord | None = None,
    **overrides: Any,  # noqa: ANN401 (sections and values of a recipe)
) -> RunResult:
    """Pre-train by a recipe, as `spanlab pretrain` does; prints nothing.

    Args:
        recipe: a shipped name or a YAML file.
        data: prepared corpora, each a folder or `"folder:weight"`.
        out: the run folder.
        init: a model folder or hub id to continue from.
        resume: go on with the run in `out`.
        overwrite: replace the run in `out`.
        on_record: called with every record of the run.
        overrides: sections and values, such as `size="mini", training={"steps": 1000}`; of the recipe's `data` section,
            whose name is taken, by full name: `**{"data.length": 128}`.
    """
    folders = [data] if isinstance(data, str | Path) else data
    job = PretrainingJob(
        recipe=load_recipe(str(recipe), overrides),
        data=tuple(map(str, folders)),
        out=str(out),
        init=None if init is None else str(init),
        resume=resume,
        overwrite=overwrite,
    )
    return run_job(job, on_record=on_record)


def run_job(job: PretrainingJob, *, on_start: OnStart | None = None, on_record: OnRecord | None = None) -> RunResult:
    """Do the work of one process of the run; the callbacks are called in the first of them."""
    with process_group(), restore_threads():
        training_config = job.recipe.training
        process = current_process(training_config.device, training_config.precision)
        run = RunFolder(job.out)
        if process.is_main:
            run.check(resume=job.resume, overwrite=job.overwrite)
        corpora = open_corpora(job.data)
        config = describe(job, corpora)
        if job.resume:
            run.check_same(config)
        threads, about_threads = choose_threads(training_config.threads, run, process, resume=job.resume)
        with run.lock() if process.is_main else nullcontext():
            work, beginning = build_work(job.recipe, corpora, job.init, processes=process.world_size)
            training = Training(work, replace(training_config, threads=threads), run, process, seed=job.recipe.seed)
            if process.is_main and not job.resume:  # once nothing is left to be refused
                with readable_disk_errors(run.path, "make room"):
                    run.begin(config)
            process.barrier()
            notes = (*beginning.notes, *about_threads, *(training.resume() if job.resume else ()))
            if on_start is not None and process.is_main:
                on_start(training, notes)
            fillings = SampleFillings(corpora[0].corpus, job.recipe.data.longest)
            return run_training(training, config, notes, on_begin_and_end=fillings.note, on_record=on_record)


def open_corpora(names: Sequence[str]) -> list[WeightedCorpus]:
    """The prepared corpora of a job."""
    if not names:
        raise InputError("no corpus is given", fix="name a prepared one with --data DIR (spanlab prepare makes it)")
    return [WeightedCorpus.parse(name) for name in names]


def describe(job: PretrainingJob, corpora: Sequence[WeightedCorpus]) -> dict[str, Any]:
    """The resolved config, as it is kept in the run folder and compared when the run is resumed."""
    manifests = [(item.corpus.folder / MANIFEST).read_bytes() for item in corpora]
    return {
        **to_mapping(job.recipe),
        "corpora": list(job.data),
        "corpus_weights": [item.weight for item in corpora],
        "corpus_fingerprints": [hashlib.sha256(manifest).hexdigest()[:16] for manifest in manifests],
        "init": job.init,
    }


def yaml_of(recipe: Recipe) -> str:
    """A recipe as resolved, in the form that can be given back as a recipe file."""
    return yaml.safe_dump(to_mapping(recipe), sort_keys=False, allow_unicode=True)
