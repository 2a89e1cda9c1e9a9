import pickle

import pytest

from spanlab.errors import ConfigError, InputError, MissingExtraError, SpanlabError


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
