"""The commands to type next: first with what the quickstart left, then with files of one's own."""

from dataclasses import dataclass

from spanlab.quickstart import plan
from spanlab.quickstart.results import QuickstartResults


@dataclass(frozen=True, kw_only=True)
class NextCommand:
    """A line to type and what it does."""

    what: str
    command: str


def next_commands(folder: str, findings: QuickstartResults) -> list[NextCommand]:
    """With the models of this run, and with the user's own files in their place."""
    entities, questions = plan.TASKS
    finder = f"{folder}/{plan.run_name(findings.best(entities).beginning, entities)}"
    answerer = f"{folder}/{plan.run_name(findings.best(questions).beginning, questions)}"
    return [
        NextCommand(
            what="entities of your text, one text a line", command=f"spanlab predict {finder} --input MINE.txt"
        ),
        NextCommand(
            what='answers to your questions, {"question", "context"} a line',
            command=f"spanlab predict {answerer} --input MINE.jsonl",
        ),
        NextCommand(
            what="what the pre-trained model puts where text is missing",
            command=f'spanlab fill {folder}/{plan.PRETRAINED} "The [MASK] [MASK] of the function is returned."',
        ),
        NextCommand(
            what="all of this on your own text, for longer",
            command="spanlab quickstart --text MINE.txt --budget 30m --out mine",
        ),
        NextCommand(
            what="a vocabulary of your own",
            command="spanlab tokenizer train MINE.txt --type wordpiece --vocab-size 16000 --out my-tokenizer",
        ),
        NextCommand(what="a corpus", command="spanlab prepare MINE.txt --tokenizer my-tokenizer --out my-corpus"),
        NextCommand(
            what="a SpanBERT; --dry-run tells how long it takes",
            command="spanlab pretrain spanbert --data my-corpus --out my-spanbert size=mini",
        ),
        NextCommand(what="is my labelled file sound?", command="spanlab data check ner TRAIN.jsonl"),
        NextCommand(
            what="a model for your labels",
            command="spanlab finetune ner --model my-spanbert --train TRAIN.jsonl --dev DEV.jsonl --out my-entities",
        ),
    ]
