"""`spanlab recipe`: what it prints, and that it prints it without waiting for torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spanlab.recipes import recipe_path, shipped_recipes
from tests.cli.run import run_here

_HEAVY = "{'torch', 'transformers', 'scipy.stats', 'tokenizers'} & set(sys.modules)"


def test_no_command_imports_torch(tmp_path: Path) -> None:
    commands = [
        ["list"],
        ["show", "spanbert", "size=mini"],
        ["copy", "spanbert", str(tmp_path / "mine.yaml")],
        ["check", str(tmp_path / "mine.yaml")],
        ["diff", str(tmp_path / "mine.yaml"), "masking.ratio=0.3"],
    ]
    code = f"""
import json, sys
from spanlab.cli.main import main

for command in json.loads(sys.argv[1]):
    sys.argv = ["spanlab", "recipe", *command]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code, command
print(sorted({_HEAVY}), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.stdout.splitlines()[-1] == "masking.ratio: 0.15 -> 0.3"


def test_the_list_has_a_line_for_each() -> None:
    lines = run_here("recipe", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == shipped_recipes()
    spanbert = next(line for line in lines if line.startswith("spanbert"))
    assert "mlm+sbo" in spanbert
    assert "tiny mini small [base large]" in spanbert
    listed = json.loads(run_here("recipe", "list", "--json").stdout)["recipes"]
    assert [recipe["name"] for recipe in listed] == shipped_recipes()


def test_show_is_the_file_or_the_resolved_settings() -> None:
    assert run_here("recipe", "show", "bert").stdout == recipe_path("bert").read_text(encoding="utf-8")
    shown = yaml.safe_load(run_here("recipe", "show", "bert", "size=tiny", "seed=3").stdout)
    assert (shown["size"], shown["seed"], shown["backbone"], shown.get("sizes")) == (
        "tiny",
        3,
        "modernbert",
        None,
    )
    assert json.loads(run_here("recipe", "show", "bert", "--json").stdout)["size"] == "base"


def test_copy_check_and_diff_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here("recipe", "copy", "spanbert", "mine.yaml")
    assert done.stdout == "mine.yaml: a copy of spanbert; spanlab recipe diff mine.yaml says what you changed\n"
    again = run_here("recipe", "copy", "spanbert", "mine.yaml")
    assert (again.returncode, again.stderr) == (
        2,
        "spanlab: mine.yaml: file exists; choose another name, or use --overwrite\n",
    )
    assert "no setting differs from spanbert" in run_here("recipe", "diff", "mine.yaml").stderr
    text = Path("mine.yaml").read_text()
    Path("mine.yaml").write_text(text.replace("geometric_p: 0.2", "geometric: 0.2"))
    done = run_here("recipe", "check", "mine.yaml", "--memory", "64")
    assert (done.returncode, done.stderr) == (2, "spanlab: mine.yaml: 1 problem; see the list\n")
    line = text[: text.index("geometric_p: 0.2")].count("\n") + 1
    assert done.stdout.startswith(f"mine.yaml:{line}: unknown key 'masking.geometric' (did you mean")
    reported = json.loads(run_here("recipe", "check", "mine.yaml", "--json").stdout)["problems"]
    assert [(problem["path"], problem["line"]) for problem in reported] == [("mine.yaml", line)]
    Path("mine.yaml").write_text(text.replace("geometric_p: 0.2", "geometric_p: 0.25"))
    done = run_here("recipe", "diff", "mine.yaml", "--json")
    assert json.loads(done.stdout)["differences"] == [
        {
            "key": "masking.geometric_p",
            "published": 0.2,
            "own": 0.25,
            "sizes": ["tiny", "mini", "small", "base", "large"],
            "line": line,
        }
    ]
    checked = run_here("recipe", "check", "mine.yaml", "--memory", "64")
    assert (checked.returncode, len(checked.stdout.splitlines())) == (0, 5)
    done = run_here("recipe", "check", "mine.yml")
    assert (done.returncode, done.stderr) == (2, "spanlab: mine.yml: no such file\n")
