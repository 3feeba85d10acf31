"""Checks of scikit-learn that a learner cannot pass, and why."""


def weights_differ(reason):
    """Weights and repeated rows agree less closely than to seven digits; see tests/test_sample_weight.py."""
    kinds = ("dense", "sparse")
    return dict.fromkeys([f"check_sample_weight_equivalence_on_{kind}_data" for kind in kinds], reason)
