"""A quickstart from the beginning to the end, or from where it was to the end."""

from spanlab.atomic_io import readable_disk_errors, write_atomically, write_json
from spanlab.quickstart import plan
from spanlab.quickstart.data_steps import make_corpus, make_data
from spanlab.quickstart.events import NoEvents, QuickstartEvents
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.packaged_minilm import PackagedMiniLM, find_minilm
from spanlab.quickstart.page import quickstart_page
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.results import QuickstartResults, gather, score_models
from spanlab.quickstart.training_steps import (
    continue_minilm,
    finetune_from,
    make_new_weights,
    pretrain_here,
)
from spanlab.text.plain_files import open_plain_files

PARTS = (
    "text, a tokenizer, a corpus",
    "a SpanBERT, pre-trained on it",
    "fine-tuning on entities and questions",
    "test scores and the report",
)


def run_quickstart(
    settings: QuickstartSettings, watcher: QuickstartEvents | None = None, *, overwrite: bool = False
) -> QuickstartResults:
    """Do what is still to be done in the folder of the settings; prints nothing.

    Args:
        settings: where, on what text, for how long.
        watcher: is told everything as it happens.
        overwrite: begin anew where a quickstart was begun.
    """
    place = QuickstartFolder(settings, watcher or NoEvents())
    open_plain_files(settings.text)  # refuses what is missing or empty before anything is done
    fix = "make room and give the same command again: it goes on"
    with readable_disk_errors(settings.out, fix), place.opened(overwrite=overwrite):
        return _run(place)


def _run(place: QuickstartFolder) -> QuickstartResults:
    minilm = find_minilm() if place.settings.minilm else PackagedMiniLM(problem="MiniLM was not asked for")
    beginnings = plan.BEGINNINGS if minilm.folder is not None else plan.BEGINNINGS[:2]
    runs = tuple(name for name in plan.SHARES if name.partition("-")[0] in beginnings)
    _begin_part(place, 1)
    make_data(place)
    _begin_part(place, 2)
    make_new_weights(place)
    pretrain_here(place, runs)
    _begin_part(place, 3)
    for beginning in beginnings:
        if beginning == plan.MINILM and minilm.folder is not None:
            make_corpus(place, plan.MINILM_CORPUS, minilm.folder)
            continue_minilm(place, minilm.folder, runs)
        for task in plan.TASKS:
            finetune_from(place, beginning, task, runs)
    if minilm.problem:
        place.watcher.say(f"without MiniLM: {minilm.problem}")
    _begin_part(place, 4)
    score_models(place, beginnings)
    findings = gather(place, beginnings, minilm.problem)
    write_json(place.folder / plan.SCORES, findings.to_dict())
    write_atomically(place.folder / plan.REPORT, quickstart_page(place.folder, findings).encode())
    return findings


def _begin_part(place: QuickstartFolder, number: int) -> None:
    place.watcher.part(number, len(PARTS), PARTS[number - 1])
