"""The estimators where scikit-learn uses them, and its own checks as far as they apply to texts.

`check_estimator` draws matrices of numbers, so for an estimator of texts it runs the check of cloning and says that the
others do not apply. Those that need no data are run here by name.
"""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils import estimator_checks  # noqa: E402

import spanlab  # noqa: E402
from spanlab.errors import InputError  # noqa: E402
from tests.integrations.models import NAMES, PLACES  # noqa: E402

TEXTS = [f"this is {word}" for word in NAMES + PLACES] * 3
LABELS = ["person"] * len(NAMES) + ["place"] * len(PLACES)
WITHOUT_DATA = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_mixin_order",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


@pytest.mark.parametrize("name", WITHOUT_DATA)
@pytest.mark.parametrize("estimator", [spanlab.SpanLabVectorizer(), spanlab.SpanLabClassifier()], ids=["vec", "clf"])
def test_checks_of_scikit_learn(name: str, estimator: Any) -> None:
    getattr(estimator_checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize("estimator", [spanlab.SpanLabVectorizer(), spanlab.SpanLabClassifier()], ids=["vec", "clf"])
def test_check_estimator_says_what_does_not_apply(estimator: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = estimator_checks.check_estimator(estimator)
    assert {result["status"] for result in results} == {"passed"}
    assert any("string=True" in str(warning.message) for warning in caught)


def test_vectors_in_a_pipeline(minilm: Path) -> None:
    vectorizer = spanlab.SpanLabVectorizer()
    chain = make_pipeline(vectorizer, LogisticRegression()).fit(TEXTS, LABELS * 3)
    assert chain.score(TEXTS, LABELS * 3) > 0.9
    vectors = vectorizer.fit(TEXTS).transform(np.array(TEXTS[:2], dtype=object))
    assert np.allclose(vectors, spanlab.load("minilm").encode(TEXTS[:2]), atol=1e-6)
    assert len(vectorizer.get_feature_names_out()) == vectors.shape[1] == 384
    data = pickle.dumps(chain)
    assert len(data) < 50_000
    assert list(pickle.loads(data).predict(TEXTS)) == list(chain.predict(TEXTS))


@pytest.fixture(scope="module")
def classifier(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings = {"training": {"lr": 5e-3, "batch_size": 8}}
    out = tmp_path_factory.mktemp("classifier") / "run"
    return spanlab.SpanLabClassifier(tiny_model, epochs=10, settings=settings, out=out).fit(TEXTS, LABELS * 3)


def test_the_classifier_learns_and_is_a_model_of_its_own(classifier: Any) -> None:
    assert classifier.score(TEXTS, LABELS * 3) > 0.9
    probabilities = classifier.predict_proba(["this is ada", "", "this is paris"])
    assert probabilities.shape == (3, 2)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert list(classifier.classes_) == ["person", "place"]
    assert list(classifier.predict(["this is ada", "this is paris"])) == ["person", "place"]
    (result,) = spanlab.load(classifier.model_folder_).predict("this is ada")
    assert result.scores["person"] == pytest.approx(probabilities[0, 0], abs=1e-6)


def test_a_fitted_classifier_is_cloned_and_pickled_without_its_model(classifier: Any) -> None:
    fresh = clone(classifier)
    assert fresh.get_params() == classifier.get_params()
    assert not hasattr(fresh, "classes_")
    with pytest.raises(sklearn.exceptions.NotFittedError):
        fresh.predict(TEXTS)
    data = pickle.dumps(classifier)
    assert len(data) < 5_000
    assert list(pickle.loads(data).predict(TEXTS[:3])) == list(classifier.predict(TEXTS[:3]))
    with pytest.raises(InputError, match="the folder contains a run"):
        fresh.fit(TEXTS, LABELS * 3)


def test_a_grid_of_settings_with_labels_that_are_numbers(tiny_model: Path) -> None:
    base = spanlab.SpanLabClassifier(tiny_model, settings={"training": {"batch_size": 8}})
    labels = [int(label == "place") for label in LABELS * 3]
    grid = GridSearchCV(base, {"epochs": [0.5, 1]}, cv=2, error_score="raise").fit(TEXTS, labels)
    assert grid.best_params_["epochs"] in {0.5, 1}
    assert set(grid.predict(TEXTS).tolist()) <= {0, 1}


def test_what_is_not_text_is_refused(tiny_model: Path) -> None:
    for wrong, told in (("a text", "X is a single text"), ([["a"]], "X holds a list"), ([1.0], "X holds a float")):
        with pytest.raises(InputError, match=told):
            spanlab.SpanLabClassifier(tiny_model).fit(wrong, [0])
    with pytest.raises(InputError, match="2 texts and 1 labels"):
        spanlab.SpanLabClassifier(tiny_model).fit(["a", "b"], [0])
