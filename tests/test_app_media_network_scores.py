"""Labels in a network's own list, and its scores of them."""

import numpy as np
import pytest

from bagwise.app.media._network_input import log_odds
from bagwise.app.media._network_scores import match_labels

BIRDS = ["Turdus merula_Eurasian Blackbird", "Parus major_Great Tit", "Human vocal_Human vocal", "Larus_Gull", "X_Gull"]


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("Turdus merula", 0), ("turdus_MERULA", 0), ("Eurasian blackbird", 0), ("Eurasian Black-bird", 0),
        ("Turdus merula_Eurasian Blackbird", 0), ("Turdus merula (Eurasian Blackbird)", 0), ("great  tit", 1),
        ("Great-Tit", 1), ("Pärus major", 1), ("human vocal", 2), ("gull", None), ("larus", 3), ("bird", None),
        ("Turdus", None), ("", None), ("?!", None),
    ],
)  # fmt: skip
def test_a_label_is_matched_by_any_of_its_names(label, found):
    assert match_labels([label], BIRDS) == ({} if found is None else {label: found})


def test_tables_and_lists_of_several_languages_name_classes():
    table = ["eurbla,Turdus merula,Eurasian Blackbird", "gretit1;Parus major;Great Tit"]
    assert match_labels(["EURBLA", "gretit1", "Parus major"], table) == {"EURBLA": 0, "gretit1": 1, "Parus major": 1}
    languages = [
        "Turdus merula_Eurasian Blackbird\nTurdus merula_Amsel",
        "Parus major_Great Tit\nParus major_Kohlmeise",
    ]
    assert match_labels(["Amsel", "Parus major_Great Tit"], languages) == {"Amsel": 0, "Parus major_Great Tit": 1}


def test_log_odds_of_probabilities_are_those_of_logits():
    logits = np.array([[-3.0, 0.0, 2.5]])
    np.testing.assert_allclose(log_odds(1 / (1 + np.exp(-logits)), "probabilities"), logits, atol=1e-12)
    np.testing.assert_array_equal(log_odds(logits, "logits"), logits)
    assert log_odds(np.array([0.0, 1.0, np.nan, 1.5]), "probabilities").tolist() == [-15, 15, -15, -15]
    assert log_odds(np.array([-99.0, 99.0, np.nan]), "logits").tolist() == [-15, 15, -15]
