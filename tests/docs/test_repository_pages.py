"""What stands beside the code says what the code is: the map of the house, the container, the citation, the readmes."""

import re
import shlex

import yaml

from spanlab import __version__
from tests.docs.blocks import ROOT, SHELL, blocks_of
from tests.docs.shell import commands_of


def _commands_of_readme(name: str = "README.md") -> list[str]:
    blocks = [block for block in blocks_of(ROOT / name) if block.language in SHELL]
    return [shlex.join(shlex.split(command, comments=True)) for block in blocks for command in commands_of(block)]


def test_the_map_names_every_room_and_nothing_else() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^      ([\w/.]+) {2,}", contributing, re.MULTILINE))
    package = ROOT / "src" / "spanlab"
    rooms = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").is_file()}
    files = {path.name for path in package.glob("*.py") if not path.name.startswith("__") and path.stem != "version"}
    assert named == rooms | files


def test_the_container_is_built_by_steps_of_the_readme() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    base = lines[: lines.index("FROM base AS serve")]
    steps = [line.removeprefix("RUN ") for line in base if line.startswith("RUN ")]
    readme = _commands_of_readme()
    assert steps
    places = [readme.index(step) for step in steps]
    assert places == sorted(places)
    told = [line.removeprefix("#   ") for line in lines if line.startswith("#   docker")]
    serving = _commands_of_readme("docs/how-to/serve.md")
    assert {shlex.join(shlex.split(command)) for command in told} <= {*readme, *serving}


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert {"cff-version", "title", "message", "authors", "license"} <= set(citation)


def test_every_page_is_in_the_navigation() -> None:
    def pages(entry: object) -> set[str]:
        if isinstance(entry, str):
            return {entry}
        inner = entry.values() if isinstance(entry, dict) else entry
        return set().union(*map(pages, inner))  # type: ignore[arg-type]

    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages(navigation) == written
