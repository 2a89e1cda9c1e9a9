"""The checks of the almanac find what they are for: each is shown a sound passage with one thing broken."""

from pathlib import Path

import pytest

from tests.samples.almanac_set_checks import check_totals
from tests.samples.check_almanac import find, main, read_files

SOUND = """\
## en-crafts-91 style=news split=train
title: Clocks for the harbour
* {1:PER|Ada Moss} opened the clock shop {2:ORG|Tick} in {LOC|Ulm} in {DATE|1990}, after {QUANTITY|two rivals}.
- {1|She} had learned the trade from {5:PER|Otto Berg}, a stern man.
- For {QUANTITY|thirty years} {5|he} had repaired nothing but ships in the harbour of {LOC|Kiel}.
- Today {2:ORG|Tick} sells mostly wooden wall clocks to visitors.
- On {DATE|Mondays} {1|she} shows children how a pendulum works.
- "Nobody needs a clock," {1|she} says, "but everybody likes to hear one."

rel: 1 founded 2
rel: 5 taught 1
q: What does the shop sell above all?
a: wooden wall clocks
q: Who showed the owner how to mend clocks?
a: Otto Berg
q: When does the owner teach young visitors?
a: Mondays
q: In which year did Otto Berg die?
not: 1990
same: The year 1990 saw Tick open. | The shop has existed since 1990.
diff: Otto Berg once taught Ada Moss. | Ada Moss once taught Otto Berg.
"""


def findings(tmp_path: Path, *sources: str) -> list[str]:
    paths = []
    for number, source in enumerate(sources):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_text(source, encoding="utf-8")
    everything, faults = read_files(paths)
    assert not faults
    return [str(finding) for finding in find(everything)]


def test_the_sound_passage_is_sound(tmp_path: Path) -> None:
    assert findings(tmp_path, SOUND) == []


PAIRS = SOUND[SOUND.index("same:") :]
QUOTE = '- "Nobody needs a clock," {1|she} says, "but everybody likes to hear one."\n'
BREAKS = [
    ("pendulum works.", "pendulum", ":7:57:", "ends without a mark"),
    ("* {1:PER", "- {1:PER", ":1:1:", "0 key sentences"),
    ("q: Who showed the owner how to mend clocks?\na: Otto Berg\n", "", ":1:1:", "3 questions"),
    ("not: 1990", "a: 1990", ":1:1:", "0 unanswerable"),
    (PAIRS, "", ":1:1:", "0 pairs"),
    ("Today {2:ORG|Tick} sells", "Today Tick sells", ":6:9:", "'Tick' is ORG elsewhere"),
    ("Today {2:ORG|Tick}", "Today {2:ORG|Ti}ck", ":6:16:", "cuts a word"),
    ("to visitors", "to {LOC|the Alps}", ":6:62:", "leave the article outside"),
    ("to visitors", "to Danes", ":6:57:", "note: en-crafts-91: 'Danes' is in no entity"),
    ("On {DATE|Mondays} {1|she}", "On {DATE|Mondays} she", ":7:21:", "note: en-crafts-91: 'she' refers to nobody"),
    ("sell above all?", "sell above all", ":12:1:", "no question mark"),
    ("When does the owner", "When on Mondays does the owner", ":16:1:", "holds its own answer"),
    ("a: wooden", "a: For thirty years he had repaired nothing but ships in the harbour of Kiel\na: wooden",
     ":12:1:", "is longer than 12"),
    ("a: wooden wall clocks", "a: of Kiel. Today", ":5:84:", "runs over two sentences"),
    ('"Nobody', "“Nobody", ":8:1:", "curly quotes"),
    (QUOTE, "", ":1:1:", "words; write 60 to 140"),
    ("Otto Berg once taught Ada Moss.", "Otto taught Ada.", ":21:1:", "shorter than 5"),
    ("Otto Berg once taught Ada Moss.", "Today Tick sells mostly wooden wall clocks", ":21:1:", "in other"),
    ("When does the owner teach young visitors?", "What does the shop above all sell?", ":16:1:", "too like"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "cause"), BREAKS)
def test_a_broken_passage_is_found(tmp_path: Path, old: str, new: str, place: str, cause: str) -> None:
    assert SOUND.count(old) == 1
    found = findings(tmp_path, SOUND.replace(old, new))
    assert any(place in finding and cause in finding for finding in found), found


def test_repetitions_between_files_are_found(tmp_path: Path) -> None:
    found = findings(tmp_path, SOUND, SOUND.replace("crafts-91", "crafts-92"))
    for cause in ("the same title as en-crafts-91", "the same text as", "too like that of en-crafts-91", "too like 'W"):
        assert any(cause in finding for finding in found), found
    assert any("the same id" in finding for finding in findings(tmp_path, SOUND, SOUND))


def test_a_template_is_found_in_the_fourth_passage(tmp_path: Path) -> None:
    phrase = "repaired nothing but ships in the"
    sources = [SOUND.replace("crafts-91", f"crafts-{number}") for number in range(91, 95)]
    assert not any(phrase in finding for finding in findings(tmp_path, *sources[:3]))
    assert any(phrase in finding and "in 4 passages" in finding for finding in findings(tmp_path, *sources))


def test_totals_and_balance_are_found(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("".join(SOUND.replace("crafts-91", f"crafts-{number}") for number in range(50)), encoding="utf-8")
    everything, _ = read_files([path])
    problems = check_totals([checked.passage for checked in everything], size=500_000)
    given_away = "100% of the unanswerable questions are about dates and amounts, 33% of the others"
    for cause in ("0 passages in zh", "500000 bytes", "topic crafts: 0 of 40 in test; 8 wanted", given_away):
        assert any(cause in problem for problem in problems), problems


def test_the_command_prints_places_and_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "one.txt"
    path.write_text(SOUND, encoding="utf-8")
    assert main([str(path)]) == 0
    assert "questions" in capsys.readouterr().out
    path.write_text(SOUND.replace("{1|She}", "{1|She"), encoding="utf-8")
    assert main([str(path)]) == 1
    assert f"{path}:4:3: '{{' is never closed" in capsys.readouterr().out
