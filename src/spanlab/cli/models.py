"""`spanlab models`: what is in the box, what packages bring, and where else to get models."""

from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.output import print_json, print_table

if TYPE_CHECKING:
    from spanlab.models import BundledModel, PackagedModel


def models(as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False) -> None:
    """List the models that are used by name, in the box or in installed packages, and where else to get models.

    A name stands for the model wherever a command takes one: --model, --init, fill, embed, inspect model, convert. A
    folder of that name in the current directory comes first, and a note says so.

    Example: spanlab models --json
    """
    from spanlab.models import ELSEWHERE, find_packaged, list_models

    packaged = find_packaged()
    if as_json:
        models = {"models": [model.to_dict() for model in list_models()]}
        print_json({**models, "packaged": [model.to_dict() for model in packaged], "elsewhere": dict(ELSEWHERE)})
        return
    for model in list_models():
        print_table(_rows(model), title=model.name)
        typer.echo()
    for packaged_model in packaged:
        print_table(_packaged_rows(packaged_model), title=packaged_model.name)
        typer.echo()
    print_table(ELSEWHERE.items(), title="From the Hugging Face hub, downloaded once")
    typer.echo("\nAny other BERT, RoBERTa, ALBERT, ELECTRA, XLNet, GPT-2 or ModernBERT there loads the same way.")


def _packaged_rows(model: "PackagedModel") -> list[tuple[str, str]]:
    from spanlab.models import NAMES

    rows = [
        ("task", ", ".join(model.tasks) or "none: an encoder"),
        ("package", f"{model.distribution} {model.version}"),
        ("size", f"{model.megabytes:,.1f} MB"),
    ]
    if model.name in NAMES:
        rows.append(("note", f"not used: '{model.name}' is in the box"))
    return rows


def _rows(model: "BundledModel") -> list[tuple[str, str]]:
    size = f"{model.parameters / 1e6:,.1f} M parameters"
    size += f", {model.megabytes:,.1f} MB" if model.megabytes is not None else ", not installed"
    rows = [("task", model.task), ("base", model.base), ("size", size)]
    if model.scores:
        rows.append(("scores", ", ".join(f"{name} {value:g}" for name, value in model.scores.items())))
    rows += [("data", model.data_licence), ("for", model.purpose)]
    if model.extra is not None and model.folder is None:
        rows.append(("get it", f"pip install 'spanlab[{model.extra}]'"))
    return rows
