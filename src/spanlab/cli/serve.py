"""`spanlab serve`: models over HTTP."""

import ipaddress
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.cli.options import MODEL_HELP, DeviceOption, PrecisionName, PrecisionOption
from spanlab.cli.output import note
from spanlab.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from spanlab.serving.settings import ServeSettings

_SHORTEST_KEY = 8


def serve(
    models: Annotated[list[str] | None, typer.Argument(help=f"{MODEL_HELP}; several are served together.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the key that clients send as Authorization: Bearer KEY.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen on an address that others can reach, without a key.")
    ] = False,
    task: Annotated[
        list[str] | None, typer.Option(help="NAME=MODEL: the model that answers /v1/NAME; may be repeated.")
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Folder of training runs to show.")] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = None,
    batch_tokens: Annotated[int, typer.Option(min=8, help="Maximum tokens computed together.")] = 4096,
    queue: Annotated[int, typer.Option(min=1, help="Inputs that may wait; further ones are refused with 429.")] = 512,
    max_body_mb: Annotated[int, typer.Option(min=1, max=1024, help="Largest body of a request.")] = 16,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds in which a request is answered.")] = 300.0,
    cors: Annotated[list[str] | None, typer.Option(help="Origin of another page that may use this server.")] = None,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Log each request as a line of JSON.")] = False,
) -> None:
    """Serve the tasks of models over HTTP, with a page to try them, until Ctrl-C or SIGTERM.

    POST /v1/TASK takes one input or a list of them, as predict does; /openapi.json lists every route.

    Example: spanlab serve runs/names --port 8000
    """
    from spanlab.machine import available_cores

    if not models and not task:
        raise InputError("no model to serve", fix="name one, such as spanlab serve MODEL")
    chosen = dict(_split_task(pair) for pair in task or ())
    key = None if api_key_file is None else _read_key(api_key_file)
    if key is None and not insecure and not _is_loopback(host):
        fix = "add --api-key-file FILE, or --insecure if the network keeps others away"
        raise InputError(f"{host} can be reached from other machines, and no key protects the server", fix=fix)
    if runs is not None and not runs.is_dir():
        raise InputError("no such folder", path=runs, fix="name the folder that holds the runs")
    # Read when the tokenizers are first used; they would take the cores of the whole machine.
    os.environ.setdefault("RAYON_NUM_THREADS", str(available_cores()))
    try:
        from spanlab.serving.settings import ServeSettings

        settings = ServeSettings(
            api_key=key,
            batch_tokens=batch_tokens,
            queue=queue,
            max_body=max_body_mb << 20,
            timeout=timeout,
            json_logs=json_logs,
            runs=runs,
            cors=tuple(cors or ()),
        )
        from spanlab.serving.server import listen, run
    except ModuleNotFoundError as error:
        if error.name not in {"fastapi", "starlette", "uvicorn", "prometheus_client"}:
            raise
        raise MissingExtraError("serve", "spanlab serve") from None
    with listen(host, port) as listener:
        app = _build(settings, models or [], chosen, device, precision)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        received = run(app, listener, lambda: note(f"listening on {address}"))
    if received == signal.SIGINT:
        raise KeyboardInterrupt


def _build(
    settings: "ServeSettings",
    models: list[str],
    tasks: dict[str, str],
    device: Literal["auto", "cpu", "cuda", "mps"],
    precision: PrecisionName | None,
) -> "FastAPI":
    from spanlab.serving.app import create_app
    from spanlab.serving.served_model import load_served

    served = load_served(models, tasks=tasks, device=device, precision=precision)
    for model in served:
        abilities = [*model.tasks, *(["fill"] if model.filler else []), "embeddings"]
        note(f"{model.name}: {', '.join(abilities)}")
    return create_app(settings, served)


def _split_task(pair: str) -> tuple[str, str]:
    name, equals, model = pair.partition("=")
    if not (name and equals and model):
        raise InputError(f"--task {pair} is not NAME=MODEL", fix="write --task qa=runs/questions")
    return name, model


def _read_key(path: Path) -> str:
    """The key in a file, without the line break at its end."""
    try:
        key = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise InputError("no such file", path=path, fix="write a key into it") from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", path=path, fix="write a key into it") from None
    if len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        cause = f"a key has at least {_SHORTEST_KEY} printable ASCII characters, without spaces, on one line"
        raise InputError(cause, path=path, fix="make one with openssl rand -hex 32")
    return key


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
