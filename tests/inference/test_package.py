"""`spanlab package`: a wheel that pip installs, whose model is used by its name and whose code is never run."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import spanlab
from spanlab.errors import InputError
from spanlab.inference.package import package_model
from spanlab.models import find_packaged
from tests.cli.run import run_here
from tests.tasks.almanac_files import write_topics

TEXT = "The waves rose and the boats stayed in the harbour."


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a classifier that was trained for a moment."""
    folder = tmp_path_factory.mktemp("packaged") / "topics"
    train, dev = write_topics(folder.parent / "data")
    settings = {"steps": 4, "lr": 1e-3, "batch_size": 8, "threads": 1, "precision": "fp32"}
    spanlab.finetune("classification", model=tiny_model, train=train, dev=dev, out=folder, training=settings)
    return folder


@pytest.fixture(scope="module")
def site(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the wheel of that run."""
    pytest.importorskip("pip", reason="pip is not installed")
    wheel = package_model(run, run.parent / "wheels")
    assert wheel.name == "spanlab_model_topics-1.0-py3-none-any.whl"
    target = tmp_path_factory.mktemp("site")
    install(wheel, target)
    (target / "spanlab_model_topics" / "__init__.py").write_text("raise SystemExit('this code was run')\n")
    return target


def install(wheel: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([*command, "--quiet", "--disable-pip-version-check"], check=True, timeout=300)


@pytest.fixture
def installed(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The installed package on the path of this process; a copy, so that a test may damage it."""
    copy = Path(shutil.copytree(site, tmp_path / "site"))
    monkeypatch.syspath_prepend(str(copy))
    monkeypatch.chdir(tmp_path)
    return copy


def test_an_installed_model_is_used_by_its_name(run: Path, site: Path, tmp_path: Path) -> None:
    """As a user does: in a process that has nothing but the installation."""
    source = Path(spanlab.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{source}", "HF_HUB_OFFLINE": "1"}
    code = f"import spanlab; print(spanlab.load('topics', precision='fp32').predict({TEXT!r})[0].to_dict())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(spanlab.load(run, precision="fp32").predict(TEXT)[0].to_dict())


def test_commands_take_the_name_and_list_it(installed: Path) -> None:
    Path("texts.txt").write_text(f"{TEXT}\n")
    done = run_here("predict", "topics", "--input", "texts.txt", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["label"]
    (listed,) = json.loads(run_here("models", "--json").stdout)["packaged"]
    assert (listed["name"], listed["distribution"], listed["version"], listed["tasks"]) == (
        "topics",
        "spanlab-model-topics",
        "1.0",
        ["classification"],
    )
    assert "spanlab-model-topics 1.0" in run_here("models").stdout
    done = run_here("predict", "topiks", "--input", "texts.txt")
    assert "(did you mean 'topics'?)" in done.stderr


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "no sums"])
def test_files_are_verified(installed: Path, damage: str) -> None:
    folder = installed / "spanlab_model_topics" / "model"
    if damage == "changed":
        (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    elif damage == "missing":
        (folder / "model.safetensors").unlink()
    elif damage == "added":
        (folder / "heads.safetensors").write_bytes(b"something else")
    else:
        (folder / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match=r"use pip install --force-reinstall --no-deps spanlab-model-topics$"):
        spanlab.load("topics")


def test_a_folder_here_comes_first_and_names_of_the_box_stay(
    installed: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = next(installed.glob("*.dist-info")) / "entry_points.txt"
    points.write_text("[spanlab.models]\nreader = spanlab_model_topics\n")
    listed = find_packaged("reader")
    assert len(listed) == 1
    assert "not used: 'reader' is in the box" in run_here("models").stdout
    assert spanlab.models.folder_of("spanbert-mini-en") is not None
    points.write_text("[spanlab.models]\ntopics = spanlab_model_topics\n")
    shutil.copytree(run / "model", "topics")
    with pytest.warns(spanlab.errors.LoadWarning, match="'topics' is a folder here"):
        assert spanlab.models.folder_of("topics") == Path("topics")


def test_two_packages_of_one_name_are_refused(installed: Path) -> None:
    info = next(installed.glob("*.dist-info"))
    other = Path(shutil.copytree(info, installed / "other_topics-2.0.dist-info"))
    metadata = (other / "METADATA").read_text().replace("Name: spanlab-model-topics", "Name: other-topics")
    (other / "METADATA").write_text(metadata)
    with pytest.raises(InputError, match="the packages other-topics and spanlab-model-topics both bring a model named"):
        spanlab.load("topics")


def test_an_entry_point_elsewhere_is_no_model(installed: Path) -> None:
    points = next(installed.glob("*.dist-info")) / "entry_points.txt"
    for value in ("../../etc", "a.b", "spanlab_model_nothing"):
        points.write_text(f"[spanlab.models]\ntopics = {value}\n")
        assert find_packaged() == []


def test_the_wheel_is_complete_and_the_same_to_the_byte(run: Path, tmp_path: Path) -> None:
    (run / "model" / "notes.bin").write_bytes(b"mine")
    first, second = (package_model(run, tmp_path / name, name="a.Name_x", version="2.1") for name in "ab")
    (run / "model" / "notes.bin").unlink()
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.testzip() is None
        inside = set(archive.namelist())
        metadata = archive.read("spanlab_model_a_name_x-2.1.dist-info/METADATA").decode()
        record = archive.read("spanlab_model_a_name_x-2.1.dist-info/RECORD").decode()
        points = archive.read("spanlab_model_a_name_x-2.1.dist-info/entry_points.txt").decode()
    assert points == "[spanlab.models]\na.Name_x = spanlab_model_a_name_x\n"
    assert {line.split(",")[0] for line in record.splitlines()} == inside
    assert not any("notes.bin" in name for name in inside)
    assert "Requires-Dist: spanlab>=" in metadata
    assert "library_name" not in metadata  # the front matter of the card
    with pytest.raises(InputError, match="file exists; use another --version, or --overwrite"):
        package_model(run, tmp_path / "a", name="a.Name_x", version="2.1")
    assert package_model(run, tmp_path / "a", name="a.Name_x", version="2.1", overwrite=True) == first


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [
        ("minilm", "1.0", "'minilm' is the name of a model in the box, which would come first; give another --name"),
        ("a/b", "1.0", "a packaged model cannot be called 'a/b'"),
        ("a\n[x]", "1.0", "a packaged model cannot be called"),
        ("topics", "one", "'one' is not a version"),
    ],
)
def test_names_and_versions_that_cannot_be(run: Path, tmp_path: Path, name: str, version: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        package_model(run, tmp_path / "wheels", name=name, version=version)
    assert not (tmp_path / "wheels").exists()


def test_the_command_names_the_wheel(run: Path, tmp_path: Path) -> None:
    done = run_here("package", str(run), "--out", str(tmp_path), "--name", "mine")
    assert done.returncode == 0, done.stderr
    wheel = tmp_path / "spanlab_model_mine-1.0-py3-none-any.whl"
    assert wheel.is_file()
    assert f"pip install {wheel}" in done.stdout
    done = run_here("package", "reader", "--out", str(tmp_path))
    assert done.returncode == 2
