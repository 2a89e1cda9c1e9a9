import textwrap

import pytest

from spanlab.corpus.prepare.config import Documents, Lines
from spanlab.corpus.prepare.plan import detect_documents, detect_lines

PARAGRAPH = (
    "The house stood at the end of the lane. Nobody had lived in it for years, and the garden had grown over the path "
    "that led to the door. In the evening the windows caught the light, and then one might have thought that somebody "
    "was at home. But nobody ever was. The children of the village knew it, and went there all the same."
)
WRAPPED = "\n\n".join(textwrap.fill(PARAGRAPH, 70) for _ in range(5))
SENTENCES = "\n".join([*PARAGRAPH.split(". "), ""] * 1).replace("\n", ".\n")
KOREAN = "집은 골목 끝에 있었다.\n아무도 살지 않았다.\n저녁이면 창에 빛이 들었다.\n아이들은 알고 있었다.\n"
CHINESE = "房子在巷子的尽头。\n很多年没有人住了。\n傍晚窗户映着光。\n"


@pytest.mark.parametrize(
    ("sample", "several", "lines", "documents"),
    [
        (WRAPPED, True, "wrapped", "file"),
        (WRAPPED, False, "wrapped", "file"),
        (SENTENCES, False, "sentences", "file"),
        (SENTENCES + "\n" + SENTENCES, False, "sentences", "blank-line"),
        (KOREAN + "\n" + KOREAN, False, "sentences", "blank-line"),
        (CHINESE + "\n" + CHINESE, False, "sentences", "blank-line"),
        ("\n".join([PARAGRAPH] * 4), False, "paragraphs", "line"),
        ("\n".join([PARAGRAPH] * 4), True, "paragraphs", "file"),
        ("\n\n".join([PARAGRAPH] * 4), False, "paragraphs", "file"),
        ("\n\n".join(["\n".join([PARAGRAPH] * 3)] * 4), False, "paragraphs", "blank-line"),
        ("one line only", True, "paragraphs", "file"),
        ("", True, "paragraphs", "file"),
    ],
)
def test_layouts_are_told_apart(sample: str, several: bool, lines: Lines, documents: Documents) -> None:
    assert detect_lines([sample]) == lines
    assert detect_documents([sample], lines, several_files=several) == documents
