"""`spanlab init`: sample data, a config to start from, and the commands that use them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.atomic_io import check_new_folder
from spanlab.cli.output import print_json
from spanlab.errors import InputError
from spanlab.models import WHAT_A_MODEL_IS

if TYPE_CHECKING:
    from spanlab.samples.export import ExportedFile, Selection

_CONFIG = """# {train}
# MODEL is {model}.
# Keys that you delete keep their published values. training.lr and training.epochs follow from the model and the number
# of examples unless they are given.
{settings}"""
_CAUSAL_MODEL = "a causal model, such as a run of spanlab pretrain gpt, or gpt2 from the hub"
TRANSLATION = "translation"
"""Generation on aligned files, with an encoder and a decoder from scratch."""
_UNTRAINED = "the encoder that the second command writes, or any other; its own tokenizer then replaces the first's"
_MULTITASK = {"topics": "classification", "names": "ner", "alike": "similarity", "answers": "qa"}
"""The tasks of the sample multitask run, by name."""


def init(
    task: Annotated[str, typer.Argument(help="A task of the list below, or translation.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write.")],
    language: Annotated[str | None, typer.Option(help="en, zh or ko; default: all three.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write sample data for a task, a config with its settings, and print the commands that use them.

    `spanlab init translation` writes aligned files for generation with an encoder and a decoder.

    Example: spanlab init classification start
    """
    import yaml

    from spanlab.config import to_mapping
    from spanlab.finetuning.config import resolve_run_config
    from spanlab.finetuning.defaults import CHOSEN
    from spanlab.samples import load
    from spanlab.samples.export import Selection, build_files, sample_settings, write_exported

    check_new_folder(folder, overwrite=overwrite)
    changes = sample_settings(task, language)
    settings = to_mapping(resolve_run_config("generation" if task == TRANSLATION else task, changes))
    for key in CHOSEN:
        if key not in changes.get("training", {}):
            del settings["training"][key]
    selection = Selection(language=language, format="jsonl")
    if task == TRANSLATION:
        texts, others = _translation_files(folder, language)
    elif task == "multitask":
        texts, others = _multitask_files(folder, selection)
    else:
        texts, others = build_files(load(), task, folder, selection), {}
    config = folder / "config.yaml"
    commands = _commands(task, folder, config)
    model = {"generation": _CAUSAL_MODEL, TRANSLATION: _UNTRAINED}.get(task, WHAT_A_MODEL_IS)
    written = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    train = next(command for command in commands if command.startswith("spanlab finetune"))
    others[config.name] = _CONFIG.format(train=train, model=model, settings=written)
    write_exported(folder, texts, others)
    if as_json:
        counts = {str(file.path): file.examples for file in texts}
        print_json({"task": task, "config": str(config), "files": counts, "commands": commands})
        return
    for file in texts:
        typer.echo(f"{file.path}: {file.examples} examples")
    typer.echo(f"{config}: settings of the run")
    typer.echo("\n  ".join(["\nNext:", *commands]))
    if task != TRANSLATION:
        typer.echo(f"MODEL is {model}.")


def _multitask_files(folder: Path, selection: "Selection") -> "tuple[dict[ExportedFile, str], dict[str, str]]":
    """The files of each task, in a subfolder, and tasks.yaml that lists them."""
    import yaml

    from spanlab.samples import load
    from spanlab.samples.export import build_files, sample_settings

    entries: list[dict[str, Any]] = []
    texts: dict[ExportedFile, str] = {}
    for name, task in _MULTITASK.items():
        texts |= build_files(load(), task, folder / name, selection)
        entries.append({"name": name, "task": task, "train": f"{name}/train.jsonl", "dev": f"{name}/dev.jsonl"})
        if settings := sample_settings(task, selection.language):
            entries[-1]["settings"] = settings
    return texts, {"tasks.yaml": yaml.safe_dump(entries, sort_keys=False)}


def _translation_files(folder: Path, language: str | None) -> "tuple[dict[ExportedFile, str], dict[str, str]]":
    """Two aligned files for each split."""
    from spanlab.samples.export import ExportedFile
    from spanlab.samples.translation import translation_pairs

    if language is not None:
        raise InputError("the sample pairs are English and German", fix="leave --language out")
    texts = {}
    for split, pairs in translation_pairs().items():
        for suffix, sentences in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            file = ExportedFile(path=folder / f"{split}.{suffix}", format="text", split=split, examples=len(pairs))
            texts[file] = "".join(f"{sentence}\n" for sentence in sentences)
    return texts, {}


def _translation_commands(folder: Path, config: Path) -> list[list[object]]:
    """What trains a shared vocabulary and a model over it, and what the model is used by."""
    run, tokenizer, model = folder / "run", folder / "tokenizer", folder / "untrained"
    texts = [folder / "train.en", folder / "train.de"]
    pairs = {split: f"{folder / split}.en,{folder / split}.de" for split in ("train", "dev", "test")}
    data = ["--train", pairs["train"], "--dev", pairs["dev"]]
    return [
        ["tokenizer", "train", *texts, "--type", "bpe", "--vocab-size", 600, "--out", tokenizer],
        ["new", "transformer", "--tokenizer", tokenizer, "--out", model, "size=tiny"],
        ["finetune", "generation", "--config", config, "--model", model, *data, "--out", run],
        ["evaluate", run, "--data", pairs["test"]],
        ["predict", run, "--input", folder / "test.en"],
    ]


def _commands(task: str, folder: Path, config: Path) -> list[str]:
    """What trains, evaluates and predicts with the files of the folder, each command on one line."""
    if task == TRANSLATION:
        return [shlex.join(["spanlab", *map(str, command)]) for command in _translation_commands(folder, config)]
    run = folder / "run"
    if task == "multitask":
        data = ["--train", folder / "tasks.yaml"]
        tests = [(folder / name / "test.jsonl", ["--task", name]) for name in _MULTITASK]
    else:
        data = ["--train", folder / "train.jsonl", "--dev", folder / "dev.jsonl"]
        tests = [(folder / "test.jsonl", [])]
    commands: list[list[object]] = [
        ["finetune", task, "--config", config, "--model", "MODEL", *data, "--out", run],
        *(["evaluate", run, "--data", test, *option] for test, option in tests),
        *(["predict", run, "--input", test, *option] for test, option in tests),
    ]
    return [shlex.join(["spanlab", *map(str, command)]) for command in commands]
