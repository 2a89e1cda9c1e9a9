"""`spanlab quickstart` as a user meets it: what is printed where, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from spanlab.quickstart import run
from spanlab.quickstart.folder import QuickstartEvents
from spanlab.quickstart.plan import QuickstartSettings
from spanlab.quickstart.results import QuickstartResults
from tests.cli.run import run_here
from tests.quickstart.quickstarts import results_of


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[QuickstartSettings]:
    """The settings that the command asks for; what it is given is made up."""
    settings_of_all: list[QuickstartSettings] = []

    def pretend(settings: QuickstartSettings, events: QuickstartEvents, **_: Any) -> QuickstartResults:
        settings_of_all.append(settings)
        events.part(1, 4, "[text]")
        events.progress("reading", 10, None)
        events.say("the corpus is [done]")
        results = results_of(10.0, 40.0, "MiniLM: not installed")
        assert results.reading is not None
        events.read(results.reading)
        events.continued(results.continuation)
        return results

    monkeypatch.setattr(run, "run_quickstart", pretend)
    return settings_of_all


def test_results_go_to_stdout_and_progress_to_stderr(asked: list[QuickstartSettings]) -> None:
    ended = run_here("quickstart", "--out", "here", "--text", "a.txt", "b.txt", "--budget", "90s")
    assert ended.returncode == 0, ended.stderr
    assert asked == [QuickstartSettings(out=Path("here"), text=("a.txt", "b.txt"), budget=90.0)]
    for line in ("[1/4] [text]", "the corpus is [done]", "6 min 1 s in total; see here/report.html"):
        assert line in ended.stderr
        assert line not in ended.stdout
    for words in (
        "Ana <b> sleeps in Rome.",
        "Where does Ana sleep?  Rome",
        "PER 1",
        "1  Ana · sleeps",
        "MLM               5.50    4.50",
        "before  Ana [is to] Rome.",
        "after   Ana [was in] Rome.",
        "40.0",
        "+30.0",
        "Left out: MiniLM: not installed.",
        "spanlab predict here/entities-spanbert --input MINE.txt",
    ):
        assert words in ended.stdout
        assert words not in ended.stderr


def test_findings_as_json(asked: list[QuickstartSettings]) -> None:
    ended = run_here("quickstart", "--json")
    expected = json.loads(json.dumps(results_of(10.0, 40.0, "MiniLM: not installed").to_dict()))
    assert json.loads(ended.stdout) == expected
    assert asked == [QuickstartSettings()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "soon"], "'soon' is not a duration; write 90s, 6m or 1.5h"),
        (["--text", "nowhere.txt"], "nowhere.txt: no such file"),
        (["nowhere.txt"], "'nowhere.txt' needs --text before it"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    ended = run_here("quickstart", "--out", str(tmp_path / "out"), *arguments)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out").exists()
