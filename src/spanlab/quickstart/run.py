"""Runs a quickstart from the start, or from where it was interrupted, to the end."""

from pathlib import Path

from spanlab.atomic_io import readable_disk_errors, write_atomically, write_json
from spanlab.models import list_models
from spanlab.models.minilm import find_minilm
from spanlab.quickstart import plan
from spanlab.quickstart.continuation import compare
from spanlab.quickstart.data import make_corpus, make_labelled_files, make_text
from spanlab.quickstart.folder import QuickstartEvents, QuickstartFolder
from spanlab.quickstart.page import quickstart_page
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.reading import read_short_text
from spanlab.quickstart.results import QuickstartResults, collect_results
from spanlab.quickstart.runs import continue_spanbert, finetune_from, save_random_weights
from spanlab.text.plain_files import open_plain_files

PARTS = (
    "the reader: what a finished model finds in a short text",
    "a text: pre-training continued on it",
    "a new task: entities, learned from labelled passages",
    "test scores and the report",
)


def run_quickstart(
    settings: QuickstartSettings, events: QuickstartEvents | None = None, *, overwrite: bool = False
) -> QuickstartResults:
    """Run the steps that are not done yet in the folder of the settings; prints nothing.

    Args:
        settings: folder, text and time budget.
        events: receives everything as it happens.
        overwrite: start over in a folder that contains a quickstart.
    """
    folder = QuickstartFolder(settings, events or QuickstartEvents())
    open_plain_files(settings.text)  # rejects missing and empty files before anything is done
    fix = "free some space and repeat the command: it continues where it stopped"
    with readable_disk_errors(settings.out, fix), folder.opened(overwrite=overwrite):
        return _run(folder)


def _run(folder: QuickstartFolder) -> QuickstartResults:
    initial_models, missing = _initial_models(folder)
    all_weights = tuple(initial_models)
    runs = (plan.CONTINUED, *map(plan.run_name, all_weights))
    _start_part(folder, 1)
    reading, problem = read_short_text(folder)
    if problem:
        missing = (f"the reader: {problem}", *missing)
    for line in missing:
        folder.events.say(f"left out: {line}")
    _start_part(folder, 2)
    spanbert = initial_models[plan.SPANBERT]
    make_text(folder)
    make_corpus(folder, spanbert)
    continuation = compare(continue_spanbert(folder, spanbert, runs))
    _start_part(folder, 3)
    make_labelled_files(folder)
    save_random_weights(folder, spanbert)
    for weights, model in initial_models.items():
        finetune_from(folder, weights, model, runs)
    _start_part(folder, 4)
    results = collect_results(folder, all_weights, reading, continuation, missing)
    write_json(folder.path / plan.SCORES, results.to_dict())
    write_atomically(folder.path / plan.REPORT, quickstart_page(folder.path, results).encode())
    return results


def _initial_models(folder: QuickstartFolder) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The folders of the initial weights, which are those of the package, and what is missing."""
    (spanbert,) = (model.folder for model in list_models() if model.name == plan.SPANBERT_NAME)
    assert spanbert is not None, "it comes with the package"
    models = {plan.RANDOM: folder.path / plan.RANDOM, plan.SPANBERT: spanbert}
    minilm, problem = find_minilm() if folder.settings.minilm else (None, "it was not requested")
    if minilm is None:
        return models, (f"MiniLM: {problem}",)
    return {**models, plan.MINILM: minilm}, ()


def _start_part(folder: QuickstartFolder, number: int) -> None:
    folder.events.part(number, len(PARTS), PARTS[number - 1])
