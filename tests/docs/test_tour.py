"""The tour names files that exist, once each, and stays one evening's reading."""

import re

from tests.docs.blocks import ROOT

TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
FILES = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+\.py)`", TOUR)
PACKAGE = ROOT / "src" / "spanlab"


def test_every_file_of_the_tour_exists_and_is_named_once() -> None:
    assert len(FILES) == len(set(FILES))
    assert [name for name in FILES if not (PACKAGE / name).is_file()] == []


def test_the_tour_fits_one_evening() -> None:
    lines = sum(len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in FILES)
    assert 35 <= len(FILES) <= 45
    assert lines <= 6000
