"""A command line that is wrong is answered in one line that says what to write instead."""

from pathlib import Path

import pytest

from tests.cli.run import run_here, run_spanlab

WRONG = {
    "finetune ner --epochs 3": "no such option --epochs; it is a setting: write training.epochs=3",
    "finetune ner --lr=1e-3": "write training.lr=1e-3",
    "finetune --learning-rate 1e-3 ner": "write training.lr=1e-3",
    "finetune ner --head span": "write head=span",
    "finetune ner --batch-size": "write training.batch_size=VALUE",
    "finetune multitask --sampling uniform": "write sampling=uniform",
    "finetune ner --modle m": "no such option --modle; did you mean --model?",
    "finetune ner --output x": "did you mean --out?",
    "finetune --task qa": "no such option --task; TASK is given without a name: spanlab finetune classification",
    "finetune qa": "missing option '--out'; example: spanlab finetune classification --model",
    "pretrain spanbert --size mini": "write size=mini",
    "pretrain spanbert --steps 5": "write training.steps=5",
    "pretrain": "no recipe given; name one of albert, bert",
    "score": "missing argument 'task'; example: spanlab score classification --gold",
    "evaluate --model m --data d": "MODEL is given without a name: spanlab evaluate run --data",
    "predict m texts.txt": "unexpected argument texts.txt; example: spanlab predict run --input texts.txt",
    "predict m --engine foo": "invalid value for '--engine': 'foo' is not one of 'local', 'ray'; see",
    "predict m --zzz": "no such option --zzz; see spanlab predict --help",
    "recognise m": "no such command 'spanlab recognise'; the commands are almanac, benchmark, compare, convert, data,",
    "compare": "no folder given; use --out DIR",
    "fintune": "no such command 'spanlab fintune'; did you mean spanlab finetune?",
    "inspect modell": "no such command 'spanlab inspect modell'; did you mean spanlab inspect model?",
    "tokenizer train f --out o": "missing option '--type'. Choose from: wordpiece, bpe, unigram, word; example:",
    "predict m a\x1b[2Jb": "unexpected argument a\\x1b[2Jb; example",
    "a\x1b[2Jb": "no such command 'spanlab a\\x1b[2Jb'",
    "predict m --a\u202eb": "no such option --a\\u202eb",
    "data chek qa f": "did you mean spanlab data check?",
}


@pytest.mark.parametrize("command", WRONG)
def test_what_to_write_instead(command: str) -> None:
    done = run_here(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("spanlab: ")
    assert WRONG[command] in line


@pytest.mark.parametrize("command", ["predict m {}", "{}", "predict m --{}", "predict m --engine {}", "predict {}"])
def test_what_is_far_too_long_is_clipped(command: str) -> None:
    done = run_spanlab(*command.format("x" * 100_000).split())
    assert done.returncode == 2
    assert len(done.stderr) < 2500


def test_help_and_exit_codes_are_as_before() -> None:
    shown = run_spanlab("data")
    assert shown.returncode == 2
    assert "Usage: spanlab data" in shown.stdout + shown.stderr
    assert "Usage: spanlab finetune" in run_spanlab("finetune", "-h").stdout


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of two steps."""
    folder = tmp_path_factory.mktemp("messages")
    (folder / "train.csv").write_text("text;label\nthe river, again;water\nshe won;sport\n")
    files = ("--model", str(tiny_model), "--train", str(folder / "train.csv"), "--out", str(folder / "run"))
    done = run_here("finetune", "classification", *files, "training.steps=2", "training.batch_size=2")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_each_command_is_told_its_own_way(run: Path, tiny_model: Path, tmp_path: Path) -> None:
    """`run_here` refuses every message that names an option or a setting that the command does not have."""
    table = tmp_path / "other.csv"
    table.write_text("review,opinion\nfine,good\n")
    empty = tmp_path / "empty.jsonl"
    empty.write_text('{"text": "", "label": "water"}\n')
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "dev.jsonl").write_text("")
    train = ("finetune", "classification", "--model", str(tiny_model), "--out", str(tmp_path / "out"), "--train")
    cases = {
        (*train, str(tiny_model)): "this is a model folder; name a file of examples",
        ("predict", str(table), "--input", str(run)): "this is a file, not a model folder; give a model folder",
        ("score", "qa", "--gold", str(empty), "--predicted", "nowhere"): "",
        ("evaluate", str(run), "--data", "nowhere"): "nowhere: no such file; check its name",
        (*train, str(table)): "such as data.columns=opinion:label",
        ("evaluate", str(run), "--data", str(table)): "such as --columns opinion:label",
        ("predict", str(run), "--input", str(table), "--columns", "reviw:text"): "correct --columns",
        (
            "data",
            "check",
            "classification",
            str(folder),
        ): f"is a folder, not a file of examples; name a file in it, such as {folder}/dev.jsonl",
        (*train, str(empty)): "or drop such examples with data.bad_rows=drop",
        (
            "evaluate",
            str(run),
            "--data",
            str(empty),
        ): "or write the valid examples to a new file with spanlab data check",
        ("predict", str(tiny_model), "--input", str(empty)): "the model has no task: it is an encoder only; fine-tune",
        ("predict", str(tiny_model), "--input", str(empty), "--task", "x"): "the model has no task",
    }
    for command, words in cases.items():
        done = run_here(*command)
        assert done.returncode == 2, done
        assert words in done.stderr


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("text;label\na, b;x\nc;y\n", None),
        ("text\tlabel\na, b\tx\nc\ty\n", None),
        ('text,label\n"a, b",x\nc,y\n', None),
        ("Kommentar;Note\na, b;x\nc;y\n", "Kommentar:text,Note:label"),
        ("a, b;x\nc;y\n", "text,label"),
    ],
)
def test_the_separator_of_a_csv_file_is_seen(content: str, columns: str | None, tmp_path: Path) -> None:
    from spanlab.tasks.classification import Classification
    from spanlab.tasks.formats.reading import read_rows
    from spanlab.tasks.formats.row import Row

    if columns == "text,label":
        content = content.replace("a, b", "a b")  # without a header, a comma in the first line is a comma
    path = tmp_path / "a.csv"
    path.write_text(content)
    rows = list(read_rows(str(path), Classification.shape, tuple(columns.split(",")) if columns else ()))
    found = [(row.values["text"].replace(",", ""), row.values["label"]) for row in rows if isinstance(row, Row)]
    assert found == [("a b", "x"), ("c", "y")]
    path.write_text("Hello; you\nand you\n")
    alone = [row.values for row in read_rows(str(path), Classification.shape, ("text",)) if isinstance(row, Row)]
    assert alone == [{"text": "Hello; you"}, {"text": "and you"}]
