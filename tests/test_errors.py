import pickle

import pytest

from spanlab.errors import ConfigError, InputError, MissingExtraError, SpanlabError, clip_repr, nearest


@pytest.mark.parametrize(
    "error",
    [
        InputError("it is bad", path="a.txt", line=3, fix="mend it"),
        ConfigError("it is bad", fix="mend it"),
        MissingExtraError("ray", "--engine ray"),
        SpanlabError("no"),
    ],
)
def test_an_error_of_a_worker_process_arrives_whole(error: SpanlabError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_a_message_is_one_short_line_that_moves_no_cursor() -> None:
    hostile = "a\x1b[2J\r\nb\u202ec\u2028d\ud800" + "x" * 1_000_000
    for error in (
        InputError(f"the label '{hostile}' is unknown", path="long/" * 200 + "f.jsonl", line=3, fix=f"use '{hostile}'"),
        SpanlabError(hostile[:20]),
    ):
        message = str(error)
        assert message.isprintable()
        assert message.startswith("a\\x1b[2J\\r\\nb\\u202ec\\u2028d") or "f.jsonl:3: the label 'a\\x1b[2J" in message
        assert len(message) < 1000 + 650
    assert str(InputError("a\ue000b\u0378c\u3000d")) == "a\\ue000b\\u0378c\u3000d"
    assert str(InputError("is empty", path="a\nb.txt")) == "a\\nb.txt: is empty"
    assert "wäre — 中文 😀 é" in str(InputError("wäre — 中文 😀 é"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"start": 0, "end": [None, 1.5]}, "{'start': 0, 'end': [None, 1.5]}"),
        ("x" * 100, "'" + "x" * 56 + "…"),
        (["x" * 10**6] * 10**4, "['" + "x" * 55 + "…"),
        ([10**5000], "[a number of 5,001 digits]"),
        ([[[[[[[["deep"]]]]]]]], "[[[[Ellipsis]]]]"),
    ],
)
def test_values_in_messages(value: object, text: str) -> None:
    assert clip_repr(value) == text


COMMANDS = (
    "score",
    "finetune",
    "pretrain",
    "predict",
    "prepare",
    "evaluate",
    "embed",
    "coref",
    "classification",
    "ner",
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("fintune", "finetune"),
        ("fine-tune", "finetune"),
        ("eval", "evaluate"),
        ("evaluation", "evaluate"),
        ("prediction", "predict"),
        ("classify", "classification"),
        ("coreference", "coref"),
        ("NER", "ner"),
        ("nre", "ner"),
        ("socre", "score"),
        ("serve", None),
        ("compare", None),
        ("train", None),
        ("x" * 100_000, None),
    ],
)
def test_only_what_is_near_is_suggested(typed: str, meant: str | None) -> None:
    assert nearest(typed, COMMANDS) == meant
