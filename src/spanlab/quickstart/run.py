"""Runs a quickstart from the start, or from where it was interrupted, to the end."""

from spanlab.atomic_io import readable_disk_errors, write_atomically, write_json
from spanlab.models.minilm import find_minilm
from spanlab.quickstart import plan
from spanlab.quickstart.data import make_corpus, make_data
from spanlab.quickstart.events import QuickstartEvents
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.page import quickstart_page
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.results import QuickstartResults, collect_results, score_models
from spanlab.quickstart.runs import continue_minilm, finetune_from, pretrain_spanbert, save_random_weights
from spanlab.text.plain_files import open_plain_files

PARTS = (
    "text, a tokenizer, a corpus",
    "a SpanBERT, pre-trained on it",
    "fine-tuning on entities and questions",
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
    minilm, problem = find_minilm() if folder.settings.minilm else (None, "MiniLM was not requested")
    all_weights = plan.INITIAL_WEIGHTS if minilm is not None else plan.INITIAL_WEIGHTS[:2]
    runs = tuple(name for name in plan.SHARES if name.partition("-")[0] in all_weights)
    _start_part(folder, 1)
    make_data(folder)
    _start_part(folder, 2)
    save_random_weights(folder)
    pretrain_spanbert(folder, runs)
    _start_part(folder, 3)
    for weights in all_weights:
        if weights == plan.MINILM and minilm is not None:
            make_corpus(folder, plan.MINILM_CORPUS, minilm)
            continue_minilm(folder, minilm, runs)
        for task in plan.TASKS:
            finetune_from(folder, weights, task, runs)
    if problem:
        folder.events.say(f"without MiniLM: {problem}")
    _start_part(folder, 4)
    score_models(folder, all_weights)
    results = collect_results(folder, all_weights, problem)
    write_json(folder.path / plan.SCORES, results.to_dict())
    write_atomically(folder.path / plan.REPORT, quickstart_page(folder.path, results).encode())
    return results


def _start_part(folder: QuickstartFolder, number: int) -> None:
    folder.events.part(number, len(PARTS), PARTS[number - 1])
