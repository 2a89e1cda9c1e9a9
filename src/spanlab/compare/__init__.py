"""Studies: several pre-training recipes on one corpus, tested downstream, in one table with statistics.

The package is the function `spanlab.compare`, too: a name in `spanlab` can be only one of the two, and importing any of
its modules would put the package there.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from spanlab.compare.results import StudyResults


def compare(
    *names: str,
    out: str | Path,
    tasks: Mapping[str, str] | None = None,
    models: bool = False,
    study: str | None = None,
    data: str | Sequence[str] = (),
    grid: Sequence[str] = (),
    budget: str | None = None,
    seeds: str | int | None = None,
    finetuning: Sequence[str] = (),
    threads: int | None = None,
    engine: Literal["local", "ray"] = "local",
    say: Callable[[str], None] = lambda line: None,
) -> "StudyResults":
    """Compare recipes, or finished models, on the same tasks, as `spanlab compare` does.

    Args:
        names: recipes, the baseline first, and settings that all of them share, such as "size=tiny"; with `models`,
            finished models.
        out: the folder of the study; an interrupted one is continued.
        tasks: files by task, "TRAIN:DEV" or "TRAIN:DEV:TEST"; of finished models one test file.
        models: the names are finished models.
        study: a ready study, or a YAML file.
        data: prepared corpora.
        grid: "KEY=V1,V2": a recipe for each value.
        budget: of each pre-training: "10m", "20M tokens" or "3e15 FLOPs".
        seeds: how many, or a list: "5,7,11".
        finetuning: "KEY=VALUE" for fine-tuning.
        threads: CPU threads of each run.
        engine: one run after another here, or as tasks of Ray.
        say: is told what is being done, in lines.
    """
    from spanlab.compare.config import load_study
    from spanlab.compare.models import compare_models, parse_test_set
    from spanlab.compare.run import StudyEvents, run_study

    given = [f"{name}={files}" for name, files in (tasks or {}).items()]
    if models:
        return compare_models(names, [parse_test_set(task) for task in given], out, say=say)
    described = load_study(
        study,
        recipes=[name for name in names if "=" not in name],
        settings=[name for name in names if "=" in name],
        grid=grid,
        data=[data] if isinstance(data, str) else data,
        tasks=given,
        finetuning=finetuning,
        budget=budget,
        seeds=None if seeds is None else str(seeds),
        threads=threads,
    )
    return run_study(described, out, engine=engine, events=StudyEvents(say=say))


class _ComparePackage(ModuleType):
    """A package that can be called."""

    __call__ = staticmethod(compare)


sys.modules[__name__].__class__ = _ComparePackage
