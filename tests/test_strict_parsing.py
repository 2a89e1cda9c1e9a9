"""The strict readers: what is refused, where, and that nothing in the package reads JSON or YAML without them."""

import re
from pathlib import Path

import pytest

import spanlab
from spanlab.errors import ConfigError, InputError
from spanlab.strict_parsing import parse_json, parse_json_at, parse_yaml, read_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null, true], "b": {}}', {"a": [1, 2.5, None, True], "b": {}}),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1e308", 1e308),
        ("[" * 100 + "]" * 100, None),
        ('"\\ud83d\\ude00 [[[[ {"', "😀 [[[[ {"),
        ('"' + "[" * 500 + '"', "[" * 500),
    ],
)
def test_json_that_is_read(text: str, value: object) -> None:
    assert parse_json(text) == value or value is None
    assert parse_json(text.encode()) == parse_json(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": ' + "9" * 5000 + "}", r"f:1:7: the number 9{20,}.* \(5,000 characters\) is too large"),
        ('{"a": 9223372036854775808}', "f:1:7: the number 9223372036854775808 .*too large"),
        ('{"a":\n -1e999}', "f:2:2: the number -1e999 .*too large"),
        ('{"a": NaN}', "f:1:7: NaN is not a number that JSON has"),
        ("[-Infinity]", "-Infinity is not a number"),
        ("[" * 101 + "]" * 101, "nested more than 100 levels"),
        ("[" * 100_000, "nested more than 100 levels"),
        ('{"a":' * 100_000, "nested more than 100 levels"),
        ('{"a": 1, "b": 2, "a": 3}', "the key 'a' occurs twice"),
        ('{"id": "\\ud800"}', "surrogate"),
        ('{"\\uDC00": 1}', "surrogate"),
        ('{"a": "b\nc"}', "f:1:9: not valid JSON: Invalid control character"),
        ('{"a": ', "f:1:7: not valid JSON: cut short"),
        ('{"a": "', "cut short"),
        ("", "cut short"),
        ("{'a': 1}", "f:1:2: not valid JSON"),
        (b'{"a": 1,\n "b": "\xff"}', "f:2: not UTF-8 text"),
    ],
)
def test_json_that_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_json(text, path="f")
    assert len(str(caught.value)) < 600


def test_a_line_has_the_number_of_its_file() -> None:
    with pytest.raises(ConfigError, match="f:7:2: "):
        parse_json("[x]", path="f", line=7, error=ConfigError)


def test_what_may_be_kept() -> None:
    assert parse_json('"\\ud800"', surrogates="keep") == "\ud800"
    assert parse_json("[NaN, 1]", non_finite="null") == [None, 1]


def test_a_value_within_a_text() -> None:
    assert parse_json_at('[ {"a": 1}, 2]', 2) == ({"a": 1}, 10)
    with pytest.raises(InputError, match="f:2:1: not valid JSON"):
        parse_json_at("[1,\nx]", 4, path="f")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    path.write_bytes(b'\xef\xbb\xbf{"model_max_length": 1000000000000000019884624838656}')
    assert read_json(path) == {"model_max_length": int(1e30)}
    with pytest.raises(InputError, match="larger than 0 MB"):
        read_json(path, max_bytes=8)
    with pytest.raises(InputError, match="Is a directory"):
        read_json(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")
    path.write_text('{"model_max_length": ' + "1" * 41 + "}")
    with pytest.raises(InputError, match=r"tokenizer_config.json:1:22: .*too large"):
        read_json(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("seed: 2024-01-01", {"seed": "2024-01-01"}),
        ("seed: 2024-99-99", {"seed": "2024-99-99"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("base: &x {lr: 1}\nother: {<<: *x, steps: 2}", {"base": {"lr": 1}, "other": {"lr": 1, "steps": 2}}),
        ("", None),
    ],
)
def test_yaml_that_is_read(text: str, value: object) -> None:
    assert parse_yaml(text)[0] == value


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: !!int x", r"f:2:4: not valid YAML: 'x' is not of the type 'int'"),
        ("a: !!float x", "is not of the type 'float'"),
        ("a: !!bool x", "is not of the type 'bool'"),
        ("a: !!timestamp x", "is not of the type 'timestamp'"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("lr: 1" + "0" * 400, "f:1:5: .*a number of 401 digits is too large"),
        ("lr: 1" + "0" * 5000, "f:1:5: .*is not of the type 'int'"),
        ("a: \x07", "f:1: not valid YAML: the character '.x07'"),
        ("a: &x [*x]", "nested more than 100 levels"),
        ("a: &x {b: *x}", "nested more than 100 levels"),
        (BOMB, "more than 20,000 values, with its aliases expanded"),
        ("[" * 5000, "nested more than 100 levels"),
        ("a:\n " + "- " * 3000, "nested more than 100 levels"),
        ('a: "\\UFFFFFFFF"', "not valid YAML"),
        ('a: "\\ud800"', "surrogate"),
        ("a: 1\na: 2", "f:2:1: not valid YAML: the key 'a' occurs twice"),
        ("{[1]: 2}", "unhashable"),
        ("a: *none", "undefined alias"),
        ("a: 1\n---\nb: 2", "found another document"),
        ("%YAML " + "9" * 5000 + ".1\n---\na", "not valid YAML"),
        ("a" * 300_000, "300,000 characters of YAML"),
    ],
)
def test_yaml_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse_yaml(text, path="f")
    assert len(str(caught.value)) < 600


def test_the_package_reads_json_and_yaml_nowhere_else() -> None:
    source = Path(spanlab.__file__).parent
    loose = re.compile(r"\bjson\.(loads?|JSONDecoder)\b|\byaml\.(safe_|full_|unsafe_)?(load|compose|parse)(_all)?\b")
    users = [path for path in source.rglob("*.py") if loose.search(path.read_text(encoding="utf-8"))]
    assert [path.name for path in users] == ["strict_parsing.py"]
