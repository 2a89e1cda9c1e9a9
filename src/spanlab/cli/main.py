"""The `spanlab` command: registers the commands and turns errors into exit codes.

0 success, 2 the user's input is wrong (one line), 130 Ctrl-C, 1 anything else. Progress goes to stderr, results to
stdout. Modules named here must import quickly: torch, tokenizers and the like are imported inside the commands.
"""

import errno
import sys
import warnings
from typing import Annotated, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from spanlab.atomic_io import disk_problem
from spanlab.cli import (
    almanac,
    benchmark,
    compare,
    convert,
    data,
    doctor,
    embed,
    evaluate,
    export,
    fill,
    finetune,
    generate,
    init,
    inspect,
    models,
    new,
    package,
    predict,
    prepare,
    pretrain,
    push,
    quickstart,
    recipe,
    reproduce,
    score,
    serve,
    tokenizer,
)
from spanlab.cli.ending import quick_ending
from spanlab.cli.messages import explain_usage, find_command, in_words_of
from spanlab.cli.options import list_names
from spanlab.cli.streams import prepare_streams
from spanlab.compare.studies import describe_studies
from spanlab.errors import LoadWarning, RunError, SpanlabError, UnknownTokensWarning, clip, escape
from spanlab.recipes import describe_recipes
from spanlab.tasks.descriptions import DESCRIPTIONS
from spanlab.version import __version__

INTERRUPTED = 130
_LONGEST_PATH = 400
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Where it is defined differs among the versions of typer."""
_WRONG_PATH = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)

_TASKS = list_names("Tasks (spanlab finetune):", DESCRIPTIONS)
_RECIPES = list_names("Recipes (spanlab pretrain):", describe_recipes())
_STUDIES = list_names("Studies (--study):", describe_studies())

app = typer.Typer(
    name="spanlab",
    epilog=f"{_TASKS}\n\n{_RECIPES}",
    help="Pre-train, fine-tune, compare and serve SpanBERT and its family.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("benchmark")(benchmark.benchmark)
app.command("compare", epilog=_STUDIES)(compare.compare)
app.command("convert")(convert.convert)
app.command("doctor")(doctor.doctor)
app.command("embed")(embed.embed)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("fill")(fill.fill)
app.command("finetune", epilog=_TASKS)(finetune.finetune)
app.command("generate")(generate.generate)
app.command("init", epilog=_TASKS)(init.init)
app.command("models")(models.models)
app.command("new", epilog=_RECIPES)(new.new)
app.command("package")(package.package)
app.command("predict")(predict.predict)
app.command("prepare")(prepare.prepare)
app.command("pretrain", epilog=_RECIPES)(pretrain.pretrain)
app.command("push")(push.push)
app.command("quickstart")(quickstart.quickstart)
app.command("reproduce")(reproduce.reproduce)
app.command("score")(score.score)
app.command("serve")(serve.serve)
app.add_typer(almanac.app, name="almanac")
app.add_typer(data.app, name="data")
app.add_typer(inspect.app, name="inspect")
app.add_typer(recipe.app, name="recipe")
app.add_typer(tokenizer.app, name="tokenizer")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spanlab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Pre-train, fine-tune, compare and serve SpanBERT and its family."""


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    """A line on stderr; where in the code a remark about a model arises means nothing to its user."""
    place = (
        ""
        if issubclass(category, LoadWarning | UnknownTokensWarning)
        else f"{filename}:{lineno}: {category.__name__}: "
    )
    typer.echo(f"spanlab: {place}{message}", err=True)


def main() -> None:
    """Run the command line and exit with its code."""
    with quick_ending(sys.argv[1:]):
        _run()


def _run() -> NoReturn:
    prepare_streams()
    warnings.showwarning = _show_warning
    try:
        code = app(prog_name="spanlab", standalone_mode=False)
    except _UsageError as error:
        typer.echo(f"spanlab: {explain_usage(error, sys.argv[1:])}", err=True)
        sys.exit(2)
    except typer.Abort:
        typer.echo("spanlab: aborted", err=True)
        sys.exit(1)
    except SystemExit as exit_:
        code = exit_.code
    except SpanlabError as error:
        group = typer.main.get_command(app)
        command = find_command(group, sys.argv[1:]) if isinstance(group, TyperGroup) else None
        typer.echo(f"spanlab: {in_words_of(command, str(error))}", err=True)
        sys.exit(2)
    except RunError as error:
        typer.echo(f"spanlab: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        problem = disk_problem(error)
        # Every file is named where it is written.
        path = f"{clip(escape(str(error.filename)), _LONGEST_PATH)}: " if error.filename else ""
        name = path.removesuffix(": ") or (None if sys.stdout.isatty() else "standard output")
        if problem is not None and name:
            typer.echo(f"spanlab: {name}: {problem}; free some space and run the command again", err=True)
            sys.exit(2)
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            typer.echo(f"spanlab: {path}too many open files; raise the limit, such as with ulimit -n 4096", err=True)
            sys.exit(2)
        typer.echo(f"spanlab: {path}{error.strerror or escape(str(error))}", err=True)
        sys.exit(2 if isinstance(error, _WRONG_PATH) or error.errno in {errno.ENAMETOOLONG, errno.ELOOP} else 1)
    if code == INTERRUPTED:
        typer.echo("spanlab: interrupted", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
