"""The notebooks run from top to bottom, as Jupyter runs them, on settings that take a moment."""

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
SMALL = {
    "pretraining": "STEPS = 4",
    "finetuning": "EPOCHS = 0.05",
    "masks_and_attention": "BLOCKS = 1",
    "ecosystem": "TEXTS = 3\nimport spanlab.integrations.spacy",  # as the entry point of an installed package does
}


def test_every_notebook_is_run_here() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_notebook_runs(name: str, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    (settings,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    settings.source += f"\n{SMALL[name]}"
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
