"""The skipped tests of a run, told with their reasons, and refused in CI where the reason is not a good one.

`tests/allowed_skips.txt` has the reasons that CI accepts, one pattern a line: what the machine lacks, and data that
cannot be installed. Everything else that is skipped, such as a missing extra, is a hole in CI: with SPANLAB_CI=true the
run fails. The hooks run where the reports arrive, in the process that pytest-xdist's workers report to.
"""

import os
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.txt")


def read_patterns(path: Path = ALLOWED) -> list[str]:
    """The patterns of accepted reasons; lines that begin with # are comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def skips_of(reports: Iterable[object]) -> Counter[tuple[str, str]]:
    """How many tests each file skips for each reason."""
    skips: Counter[tuple[str, str]] = Counter()
    for report in reports:
        where, _, reason = report.longrepr if isinstance(getattr(report, "longrepr", None), tuple) else ("?", 0, "?")
        # A fixture's skip is told at the fixture; the test is what the reader looks for.
        file = str(getattr(report, "nodeid", "")).partition("::")[0] or str(where)
        skips[file, str(reason).removeprefix("Skipped: ")] += 1
    return skips


def refused(skips: Iterable[tuple[str, str]], patterns: Iterable[str]) -> list[tuple[str, str]]:
    """The skips whose reason no pattern allows."""
    allowed = list(patterns)
    return sorted(
        {(file, reason) for file, reason in skips if not any(fnmatchcase(reason, pattern) for pattern in allowed)}
    )


def in_ci() -> bool:
    """Whether a skip must be accounted for."""
    return os.environ.get("SPANLAB_CI") == "true"


def _skips(config: pytest.Config) -> Counter[tuple[str, str]]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return skips_of(reporter.stats.get("skipped", [])) if reporter is not None else Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a skip without an accepted reason fails the run."""
    is_worker = hasattr(session.config, "workerinput")
    if in_ci() and not is_worker and refused(_skips(session.config), read_patterns()):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The list of skips, and those that CI refuses."""
    skips = _skips(terminalreporter.config)
    if not skips:
        return
    terminalreporter.section(f"{sum(skips.values())} skipped")
    for (file, reason), count in sorted(skips.items()):
        terminalreporter.line(f"{count:4d}  {file}: {reason}")
    wrong = refused(skips, read_patterns()) if in_ci() else []
    for file, reason in wrong:
        terminalreporter.line(f"NOT ALLOWED in CI ({ALLOWED.name}): {file}: {reason}", red=True)
