"""`spanlab recipe`: list, show, copy, check and compare the recipes of pre-training."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.cli.options import list_names
from spanlab.cli.output import note, print_json
from spanlab.errors import InputError
from spanlab.recipes import describe_recipes

if TYPE_CHECKING:
    from spanlab.pretraining.recipe_files import Difference, RecipeCheck

app = typer.Typer(help="List, show, copy, check and compare recipes.", no_args_is_help=True)
EPILOG = list_names("Recipes:", describe_recipes())
RecipeArgument = Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe, or a YAML file.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, such as size=mini masking.ratio=0.2.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback()
def _recipe() -> None:
    """List, show, copy, check and compare recipes."""


@app.command("list")
def list_recipes(as_json: JsonOption = False) -> None:
    """List the shipped recipes: objectives, sizes, and what is special about each.

    Sizes in brackets have the settings at the top of the file, the others some of their own: the small ones for a
    small corpus and one machine.

    Example: spanlab recipe list
    """
    from spanlab.pretraining.recipe_files import summarise_recipes

    summaries = summarise_recipes()
    if as_json:
        print_json({"recipes": [asdict(summary) for summary in summaries]})
        return
    lines = []
    for summary in summaries:
        system = summary.name if summary.system == summary.name else f"{summary.name} ({summary.system})"
        published = [size for size in summary.sizes if size not in summary.adapted]
        sizes = " ".join([*summary.adapted, *([f"[{' '.join(published)}]"] if published else [])])
        lines.append((system, "+".join(summary.objectives), sizes, summary.description))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for line in lines:
        typer.echo("  ".join([*(f"{cell:{width}}" for cell, width in zip(line, widths, strict=False)), line[3]]))


@app.command("show", epilog=EPILOG)
def show(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the resolved settings as JSON.")] = False,
) -> None:
    """Print a recipe: as it is written, or with settings, as a run with them would have it.

    Examples:
      spanlab recipe show spanbert
      spanlab recipe show spanbert size=mini masking.ratio=0.2
    """
    from spanlab.config import to_mapping
    from spanlab.pretraining.recipe import load_recipe, locate_recipe, yaml_of

    if as_json:
        print_json(to_mapping(load_recipe(recipe, overrides or [])))
        return
    resolved = load_recipe(recipe, overrides or [])  # a file with a mistake is not shown as if it had none
    text = yaml_of(resolved) if overrides else locate_recipe(recipe).read_text(encoding="utf-8-sig")
    typer.echo(text, nl=False)


@app.command("copy", epilog=EPILOG)
def copy(
    recipe: Annotated[str, typer.Argument(metavar="NAME", help="A shipped recipe.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a shipped recipe to a file of your own, comments included, to be changed there.

    Example: spanlab recipe copy spanbert mine.yaml
    """
    from spanlab.pretraining.recipe_files import copy_recipe

    copy_recipe(recipe, file, overwrite=overwrite)
    if as_json:
        print_json({"recipe": recipe, "file": str(file)})
    else:
        typer.echo(f"{file}: a copy of {recipe}; spanlab recipe diff {file} says what you changed")


@app.command("check", epilog=EPILOG)
def check(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    memory: Annotated[
        float | None, typer.Option(help="Memory of the machine that trains, in GB; default: that of this one.", min=0)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List every problem of a recipe with its line: keys, values, what does not go together, memory.

    Every size is checked, or the one that size= names; memory at the size that a run would have. The exit code is 2 if
    there is a problem.

    Examples:
      spanlab recipe check mine.yaml
      spanlab recipe check mine.yaml size=large --memory 80
    """
    from spanlab.machine import memory_gb
    from spanlab.pretraining.recipe_files import check_recipe_file

    available = memory_gb()[0] if memory is None else memory
    report = check_recipe_file(recipe, overrides or [], memory_gb=available)
    if as_json:
        print_json(_check_to_dict(recipe, report))
    else:
        for problem in report.problems:
            typer.echo(str(problem))
        for row in report.sizes:
            shape = f"{row.backbone}, {row.layers} layers of {row.width}, {row.parameters / 1e6:,.1f} M parameters"
            steps = "no steps set" if row.steps is None else f"{row.steps:,} steps"
            typer.echo(f"{row.size:5}  {shape}; {steps} of {row.batch_size:,} x {row.length}")
    if report.problems:
        count = len(report.problems)
        raise InputError(f"{count} {'problem' if count == 1 else 'problems'}", path=recipe, fix="see the list")


def _check_to_dict(recipe: str, report: "RecipeCheck") -> dict[str, Any]:
    problems = [
        {"path": None if error.path is None else str(error.path), "line": error.line, "cause": error.cause}
        | {"fix": error.fix}
        for error in report.problems
    ]
    return {"recipe": recipe, "problems": problems, "sizes": [asdict(row) for row in report.sizes]}


@app.command("diff", epilog=EPILOG)
def diff(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    against: Annotated[
        str | None, typer.Option(help="Recipe to compare with; default: the published one of its system.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what differs from the published recipe, setting by setting.

    Every size is compared, or the one that size= names. A setting that is left out has its default.

    Examples:
      spanlab recipe diff mine.yaml
      spanlab recipe diff roberta size=base --against bert
    """
    from spanlab.encoder import SIZES
    from spanlab.pretraining.recipe_files import find_differences

    base, differences = find_differences(recipe, overrides or [], against=against)
    if as_json:
        print_json({"recipe": recipe, "against": base, "differences": [asdict(found) for found in differences]})
        return
    everywhere = tuple(SIZES)
    for difference in differences:
        typer.echo(_line_of(difference, everywhere))
    if not differences:
        note(f"no setting differs from {base}")


def _line_of(difference: "Difference", everywhere: tuple[str, ...]) -> str:
    """One setting: where, before and after."""
    line = f"{difference.key}: {_plain(difference.published)} -> {_plain(difference.own)}"
    notes = [] if difference.sizes == everywhere else [f"at {', '.join(difference.sizes)}"]
    notes += [] if difference.line is None else [f"line {difference.line}"]
    return f"{line}  ({'; '.join(notes)})" if notes else line


def _plain(value: object) -> str:
    """A setting as it is written in YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
