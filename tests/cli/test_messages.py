"""A command line that is wrong is answered in one line that says what to write instead."""

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
    "finetune qa": "missing option '--model'; example: spanlab finetune classification --model",
    "pretrain spanbert --size mini": "write size=mini",
    "pretrain spanbert --steps 5": "write training.steps=5",
    "pretrain": "missing argument 'recipe'; example: spanlab pretrain spanbert --data",
    "evaluate --model m --data d": "MODEL is given without a name: spanlab evaluate run --data",
    "predict m texts.txt": "unexpected argument texts.txt; example: spanlab predict run --input texts.txt",
    "predict m --engine foo": "invalid value for '--engine': 'foo' is not one of 'local', 'ray'; see",
    "predict m --zzz": "no such option --zzz; see spanlab predict --help",
    "serve m": "no such command 'spanlab serve'; the commands are almanac, convert, data,",
    "compare": "no such command 'spanlab compare'; the commands are",
    "fintune": "no such command 'spanlab fintune'; did you mean spanlab finetune?",
    "inspect modell": "no such command 'spanlab inspect modell'; did you mean spanlab inspect model?",
    "data chek qa f": "did you mean spanlab data check?",
}


@pytest.mark.parametrize("command", WRONG)
def test_what_to_write_instead(command: str) -> None:
    done = run_here(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("spanlab: ")
    assert WRONG[command] in line


def test_help_and_exit_codes_are_as_before() -> None:
    shown = run_spanlab("data")
    assert shown.returncode == 2
    assert "Usage: spanlab data" in shown.stdout + shown.stderr
    assert "Usage: spanlab finetune" in run_spanlab("finetune", "-h").stdout
