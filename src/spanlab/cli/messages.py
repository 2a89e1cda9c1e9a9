"""What the command line says where a command is wrong: one line with the cause, and what to write instead.

An unknown option that is a setting (`--lr 1e-3`) is answered with the setting (`training.lr=1e-3`), one that is an
argument (`--task qa`) with the argument; only what is really near is suggested. Messages of the library name settings;
where a command has an option for one, `in_words_of` names the option.
"""

import inspect
import re
from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from spanlab.errors import clip, escape, nearest

_NO_COMMAND = re.compile(r"No such command '(?P<name>.*?)'\.")
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<words>.*)\)", re.DOTALL)
_LONGEST_MESSAGE = 1000
_OPTION_OF_SETTING = {"data.columns": "--columns", "data.tag_scheme": "--tag-scheme"}
"""Settings that commands without KEY=VALUE take as an option."""
_KEEP_VALID = "or write the valid examples to a new file with spanlab data check TASK FILE --fix OUT"


def explain_usage(error: Any, arguments: Sequence[str]) -> str:  # noqa: ANN401 (typer has no public type for it)
    """One line for a `UsageError` of typer, whose context knows the command."""
    return clip(escape(_explain_usage(error, arguments)), _LONGEST_MESSAGE)


def _explain_usage(error: Any, arguments: Sequence[str]) -> str:  # noqa: ANN401
    # Choices are listed one a line; the words of the user may hold anything.
    message = re.sub(r"\s*\n\s*", " ", str(error.format_message()).strip())
    command = error.ctx.command if error.ctx is not None else None
    path = error.ctx.command_path if error.ctx is not None else "spanlab"
    unknown = _NO_COMMAND.match(message)
    if unknown is not None and isinstance(command, TyperGroup):
        return _unknown_command(unknown["name"], command, path)
    option = getattr(error, "option_name", None)
    if message.startswith("No such option") and isinstance(command, TyperCommand):
        return _unknown_option(str(option), command, path, arguments)
    extra = _EXTRA.match(message)
    cause = f"unexpected argument {extra['words']}" if extra else message[:1].lower() + message[1:]
    example = example_of(command)
    fix = f"example: {example}" if example and not cause.startswith("invalid value") else f"see {path} --help"
    return f"{cause.removesuffix('.').replace('Value error, ', '')}; {fix}"


def _unknown_command(name: str, group: TyperGroup, path: str) -> str:
    near = nearest(name, group.commands)
    fix = f"did you mean {path} {near}?" if near else f"the commands are {', '.join(sorted(group.commands))}"
    return f"no such command '{path} {name}'; {fix}"


def _unknown_option(option: str, command: TyperCommand, path: str, arguments: Sequence[str]) -> str:
    name = option.lstrip("-").replace("-", "_")
    cause = f"no such option {option}"
    positional = {str(p.name): p for p in command.params if isinstance(p, TyperArgument)}
    if name in positional:
        metavar = positional[name].metavar or name.upper()
        return f"{cause}; {metavar} is given without a name: {example_of(command)}"
    options = [known for p in command.params if isinstance(p, TyperOption) for known in p.opts]
    near = nearest(option, options)
    key = _setting(name, command, arguments)
    exact = key is not None and key.rpartition(".")[2] == name
    if near is not None and not exact:
        return f"{cause}; did you mean {near}?"
    if key is not None:
        return f"{cause}; it is a setting: write {key}={_value_of(option, arguments)}"
    return f"{cause}; see {path} --help"


def _setting(name: str, command: TyperCommand, arguments: Sequence[str]) -> str | None:
    """The setting of pretrain or finetune that an option names."""
    if command.name not in {"pretrain", "finetune"}:
        return None
    # Imports what the command itself would have imported.
    from spanlab.config import suggest_key
    from spanlab.finetuning.config import MultitaskConfig
    from spanlab.pretraining.recipe import Recipe
    from spanlab.tasks.config import TaskConfig
    from spanlab.tasks.table import TASKS

    if command.name == "pretrain":
        return suggest_key(name, Recipe)
    if "multitask" in arguments:
        return suggest_key(name, MultitaskConfig)
    task = next((word for word in arguments if word in TASKS), None)
    return suggest_key(name, TASKS[task].Config if task is not None else TaskConfig)


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """The value that follows an option, as one word or the next; a placeholder if there is none."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and following and not following.startswith("-") and "=" not in following:
            return following
    return "VALUE"


def example_of(command: Any) -> str | None:  # noqa: ANN401
    """The first example in the help of a command."""
    parts = re.split(r"^Examples?:", inspect.cleandoc(getattr(command, "help", None) or ""), flags=re.MULTILINE)
    return next((line.strip() for line in parts[-1].splitlines() if line.strip()), None) if len(parts) > 1 else None


def find_command(group: TyperGroup, arguments: Sequence[str]) -> TyperCommand | None:
    """The command that the first words of the arguments name."""
    for word in arguments:
        inner = group.commands.get(word)
        if isinstance(inner, TyperGroup):
            group = inner
        else:
            return inner if isinstance(inner, TyperCommand) else None
    return None


def in_words_of(command: TyperCommand | None, message: str) -> str:
    """A message of the library with settings named as the options that the command has for them."""
    from spanlab.tasks.validation import DROPPABLE

    options = {known for parameter in command.params for known in parameter.opts} if command is not None else set()
    if command is not None and not any(parameter.name == "overrides" for parameter in command.params):
        message = message.replace(DROPPABLE, _KEEP_VALID)
    return name_options(message, options)


def name_options(message: str, options: Collection[str]) -> str:
    """A message with settings named as those of the options that there are for them."""
    for setting, option in _OPTION_OF_SETTING.items():
        if option in options:
            message = message.replace(f"{setting}=", f"{option} ").replace(setting, option)
    return message
