"""The face of the command line: help, version, exit codes, and how little it imports."""

import errno
import json
import os
import re
import subprocess
import sys

import pytest

from spanlab.cli import main
from spanlab.version import __version__
from tests.cli.run import run_spanlab

HEAVY = ("torch", "tokenizers", "transformers", "safetensors", "scipy", "huggingface_hub", "numpy")
_LOADED = f"import sys; print([name for name in {HEAVY} if name in sys.modules])"


def loaded_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", f"{code}\n{_LOADED}"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import spanlab") == "[]"


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nsys.argv = ['spanlab', '--help']\nimport spanlab.cli.main as m\n"
    assert loaded_by(code + "try: m.main()\nexcept SystemExit: pass") == "[]"


def test_public_names_are_there_and_no_others() -> None:
    code = "import spanlab; print(spanlab.Encoder.__name__, [hasattr(spanlab, name) for name in dir(spanlab)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Encoder")
    assert "False" not in done.stdout
    failed = subprocess.run(
        [sys.executable, "-c", "import spanlab; spanlab.Encodre"], capture_output=True, text=True, check=False
    )
    assert "no attribute 'Encodre'" in failed.stderr


def test_version_and_help() -> None:
    assert run_spanlab("--version").stdout.strip() == f"spanlab {__version__}"
    shown = run_spanlab("--help")
    assert shown.returncode == 0
    for command in ("doctor", "inspect", "convert"):
        assert re.search(rf"\b{command}\b", shown.stdout)


@pytest.mark.parametrize("arguments", [("docter",), ("inspect", "model"), ("doctor", "--jsn")])
def test_wrong_words_exit_with_2(arguments: tuple[str, ...]) -> None:
    done = run_spanlab(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_doctor_says_whether_the_machine_is_usable() -> None:
    done = run_spanlab("doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["usable"] is True
    assert report["versions"]["torch"]
    assert report["gflops"]["fp32"] > 0
    assert report["gflops"]["bf16"] > 0
    assert report["precision"] in report["gflops"]
    assert report["hub"] == "offline by HF_HUB_OFFLINE"
    assert "verdict" in run_spanlab("doctor", "--offline").stdout


def test_a_hub_that_does_not_answer_is_a_finding_not_a_failure() -> None:
    done = run_spanlab("doctor", "--json", HF_HUB_OFFLINE="0", HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "does not answer" in json.loads(done.stdout)["hub"]


def test_ctrl_c_exits_with_130() -> None:
    code = "import signal, os, spanlab.machine as m\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background begins without it
    code += "m.examine = lambda **k: os.kill(os.getpid(), signal.SIGINT)\n"
    code += "import sys; sys.argv = ['spanlab', 'doctor']\nimport spanlab.cli.main as c; c.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.strip() == "spanlab: interrupted"


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"{sys.executable} -m spanlab.cli.main --help | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (errno.EMFILE, 2, "too many open files; raise the limit, such as with ulimit -n 4096"),
        (errno.ENAMETOOLONG, 2, os.strerror(errno.ENAMETOOLONG)),
        (errno.ENOENT, 2, os.strerror(errno.ENOENT)),
        (errno.EIO, 1, os.strerror(errno.EIO)),
    ],
)
def test_errors_of_the_system_are_one_line(
    number: int, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise OSError(number, os.strerror(number), "a\x1b[2Jb")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert (caught.value.code, capsys.readouterr().err) == (code, f"spanlab: a\\x1b[2Jb: {message}\n")


def test_a_name_that_the_system_refuses_is_clipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), "x" * 100_000)

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit):
        main.main()
    assert len(capsys.readouterr().err) < 1000
