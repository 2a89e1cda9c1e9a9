"""The table of tasks by name; a new task is a module or package and an entry here."""

from collections.abc import Mapping

from spanlab.errors import InputError, did_you_mean
from spanlab.tasks.base import AnyTask
from spanlab.tasks.classification import Classification
from spanlab.tasks.coref.task import Coreference
from spanlab.tasks.generation.task import Generation
from spanlab.tasks.ner.task import NamedEntities
from spanlab.tasks.qa.task import QuestionAnswering
from spanlab.tasks.relation.task import Relations
from spanlab.tasks.similarity import Similarity
from spanlab.tasks.summarisation.task import Summarisation

TASKS: Mapping[str, type[AnyTask]] = {
    "classification": Classification,
    "similarity": Similarity,
    "ner": NamedEntities,
    "qa": QuestionAnswering,
    "summarisation": Summarisation,
    "generation": Generation,
    "coref": Coreference,
    "relation": Relations,
}


def find_task(name: str) -> type[AnyTask]:
    """The class of a task by its name."""
    if name not in TASKS:
        raise InputError(f"unknown task '{name}'{did_you_mean(name, TASKS)}", fix=f"use one of {', '.join(TASKS)}")
    return TASKS[name]
