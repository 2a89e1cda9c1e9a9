"""What tests do with the page: ask for something, and look whether everybody can read the answer."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LONG = "Anna sold the flour in Delft. She was glad. The mayor of Oslo swam at sea. Peter sold fish in Oslo."


def write_run(folder: Path, steps: Iterable[int], *, state: str, height: float = 4.0) -> None:
    """A run folder with a falling loss; written again, it is longer or another."""
    folder.mkdir(parents=True, exist_ok=True)
    last = 0
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        for last in steps:
            record = {"step": last, "epoch": last / 10, "split": "train", "loss": height + 1 / last, "lr": 1e-4}
            file.write(json.dumps(record) + "\n")
            if last % 10 == 0:
                file.write(json.dumps({**record, "split": "dev", "loss": height + 1.25}) + "\n")
    (folder / "status.json").write_text(json.dumps({"state": state, "step": last, "steps": 100}))


class Visit:
    """One window with the page; `complaints` is what its console says, violations of the CSP included."""

    def __init__(self, page: Any, width: int) -> None:
        self.page, self.width = page, width
        self.complaints: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.set_default_timeout(30_000)

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and "status of 4" not in text:  # the browser's own note of a refused request
            self.complaints.append(text)

    def open(self, path: str = "/") -> None:
        self.page.goto(path)
        self.page.wait_for_selector("#tasks input", state="attached")
        self.page.wait_for_selector("#sample option:nth-child(2)", state="attached")

    def choose(self, model: str, choice: str) -> None:
        self.page.select_option("#model", model)
        self.page.check(f"#choice-{choice}", force=True)

    def ask(self, model: str, choice: str, **fields: str) -> Any:
        """The result of a choice for these fields."""
        self.choose(model, choice)
        self.page.evaluate("document.getElementById('answer').replaceChildren()")
        for name, text in fields.items():
            self.page.fill(f"#field-{name}", text)
        self.page.click("#run")
        self.page.wait_for_selector("#answer .tools")
        return self.page.locator("#answer")

    def why(self, index: int = 0) -> Any:
        """The explanation behind one of the buttons."""
        self.page.locator("#answer button[aria-label^=Why]").nth(index).click()
        self.page.wait_for_selector(".why .tools")
        return self.page.locator(".why")

    def check_readable(self) -> None:
        """Names of all controls, contrast of all text, no picture without a text, nothing beyond the window's edge."""
        self.page.wait_for_timeout(50)
        found = self.page.evaluate(AUDIT)
        assert found == [], found
        overflow = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"{overflow} pixels beyond a window of {self.width}"


AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
