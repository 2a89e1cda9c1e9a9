"""Finished models of any origin on the same test sets, paired, with the statistics of a study.

There is one run of each model, so the statement is about these models, not about the recipes they were trained by:
another seed of the same recipe may come out otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spanlab.atomic_io import has_output
from spanlab.compare.outcomes import Outcomes, run_test
from spanlab.compare.plan import check_overlap
from spanlab.compare.report import RESULTS, score_tables, write_files
from spanlab.compare.results import StudyResults, compare_outcomes
from spanlab.config import read_yaml
from spanlab.encoder.pretrained import locate_model
from spanlab.errors import InputError, clip_repr, did_you_mean
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.examples import read_labelled
from spanlab.tasks.model import TaskModel, load_task_model
from spanlab.tasks.table import TASKS
from spanlab.training.run_folder import CONFIG


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """A labelled file and the task it is for."""

    __test__ = False

    name: str
    """A task, or a task and a word of one's own, such as qa-squad."""
    path: str

    @property
    def task(self) -> str:
        """The kind of task."""
        return self.name.partition("-")[0]


def parse_test_set(text: str) -> TestSet:
    """`NAME=TEST`."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InputError(f"{clip_repr(text)} is not a test set", fix="write NAME=TEST, such as ner=test.conll")
    test = TestSet(name=name, path=path)
    if test.task not in TASKS:
        raise InputError(
            f"unknown task '{test.task}'{did_you_mean(test.task, TASKS)}", fix=f"use one of {', '.join(TASKS)}"
        )
    return test


def compare_models(
    models: Sequence[str], tests: Sequence[TestSet], out: str | Path, *, say: Callable[[str], None] = lambda line: None
) -> StudyResults:
    """Compare every model with the first on each test set, and write the results to `out`."""
    names = _names(models)
    if not tests:
        raise InputError("no test set given", fix="use --task NAME=TEST, such as ner=test.conll")
    folder = Path(out)
    has_output(folder, RESULTS, "comparison")
    heads, remarks = _check(models, tests)
    outcomes: dict[tuple[str, str], dict[int, Outcomes]] = {}
    for test in tests:
        for name, model in zip(names, models, strict=True):
            say(f"{name}, {test.name} …")
            head, config = heads[test.name, model]
            outcomes[test.name, name] = {0: run_test(model, test.path, config, task=head)}
    tasks = {test.name: test.task for test in tests}
    about = "there is one run of each model: the statement is about these models, not about how they were trained"
    results = compare_outcomes(names, tasks, outcomes, seeds=(0,), remarks=(*remarks, about))
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, results, score_tables(results))
    return results


def _names(models: Sequence[str]) -> tuple[str, ...]:
    """The last part of each path, or all of it where that is not unique."""
    if len(models) < 2:
        raise InputError("there is nothing to compare", fix="name two models, such as --models reader runs/mine")
    if len(set(models)) < len(models):
        raise InputError("a model is named twice", fix="name each once")
    short = [Path(model).name or model for model in models]
    return tuple(models) if len(set(short)) < len(short) else tuple(short)


def _check(
    models: Sequence[str], tests: Sequence[TestSet]
) -> tuple[dict[tuple[str, str], tuple[str, TaskConfig]], list[str]]:
    """The head of each model for each test set with its settings, and remarks; raises before anything is computed."""
    heads, remarks = {}, []
    for model in models:
        loaded = load_task_model(model)
        for test in tests:
            head = _head(model, loaded, test)
            heads[test.name, model] = head, loaded.tasks[head].config
            remarks += _check_unseen(model, test, loaded.tasks[head].config.data)
    return heads, list(dict.fromkeys(remarks))


def _head(model: str, loaded: TaskModel, test: TestSet) -> str:
    """The name of the model's task that a test set is for."""
    fitting = [name for name, task in loaded.tasks.items() if task.name == test.task]
    if test.name in fitting:
        return test.name
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(loaded.tasks) or "none"
    raise InputError(f"no task '{test.name}' in this model; there are: {known}", path=model, fix="name one of them")


def _check_unseen(model: str, test: TestSet, data: TaskDataConfig) -> list[str]:
    """Raise where the run that the model is from says that it was trained on the test set."""
    folder = locate_model(model)
    config = next((path / CONFIG for path in (folder, folder.parent) if (path / CONFIG).is_file()), None)
    if config is None:
        return []
    task = TASKS[test.task]
    mapping, _ = read_yaml(config)
    paths = [mapping.get(key) for key in ("train", "dev") if mapping.get("task") == test.task]
    used = [read_labelled(task, path, data) for path in paths if isinstance(path, str) and Path(path).is_file()]
    return check_overlap(test.name, task, read_labelled(task, test.path, data), used)
