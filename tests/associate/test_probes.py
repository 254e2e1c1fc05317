"""Polyp size and histology, predicted from vectors."""

import numpy as np
import pytest

from polyplink.associate.links import NotFitted
from polyplink.associate.probes import Probe, fit_adenoma, fit_size, mean_units, read_polyps

RNG = np.random.default_rng(0)
UNITS = RNG.normal(size=(90, 12))
PATIENTS = [f"p{i // 3}" for i in range(90)]
NOT_BETTER = "not surely better than one value for all"


def test_probes_predict_size_and_histology_and_noise_is_refused() -> None:
    log_mm = 1.5 + 0.4 * UNITS[:, 0] + RNG.normal(0, 0.2, 90)
    size = fit_size(UNITS, np.exp(log_mm).tolist(), PATIENTS, simulated=False)
    adenoma = fit_adenoma(UNITS, (UNITS[:, 1] > 0.3).tolist(), PATIENTS, simulated=True)
    assert "90 polyps of 30 patients" in size.origin
    new_units = RNG.normal(size=(400, 12))
    true_log_mm = 1.5 + 0.4 * new_units[:, 0] + RNG.normal(0, 0.2, 400)
    assert size.factor is not None
    covered = np.abs(size.values(new_units) - true_log_mm) <= np.log(size.factor)
    assert 0.82 < covered.mean() < 0.98
    assert ((adenoma.values(new_units) > 0) == (new_units[:, 1] > 0.3)).mean() > 0.85
    noise = RNG.permutation(np.exp(log_mm)).tolist()
    with pytest.raises(NotFitted, match=NOT_BETTER):
        fit_size(UNITS, noise, PATIENTS, simulated=False)
    needed = "and at least 9 polyps of two patients are needed"
    for n, patients, labels_text in (
        (5, list("abcde"), "5 labelled polyps of 5 patients"),
        (9, ["a"] * 9, "9 labelled polyps of 1 patient"),
    ):
        with pytest.raises(NotFitted, match=f"^{labels_text}, {needed}$"):
            fit_size(UNITS[:n], [3.0] * n, patients, simulated=False)
    with pytest.raises(NotFitted, match="0 of 90"):
        fit_adenoma(UNITS, [False] * 90, PATIENTS, simulated=False)


def test_a_probe_is_judged_on_patients_that_were_not_in_the_fit() -> None:
    """The vector tells the patient, and so the sizes of the other polyps of the patient alone."""
    patient = np.repeat(np.arange(20), 5)
    units = np.eye(20)[patient] + RNG.normal(0, 0.05, (100, 20))
    size_mm = np.exp(RNG.normal(size=20))[patient].tolist()
    with pytest.raises(NotFitted, match=NOT_BETTER):
        fit_size(units, size_mm, [f"p{k}" for k in patient], simulated=False)
    fit_size(units, size_mm, [f"p{k}" for k in range(100)], simulated=False)


def test_a_polyp_is_predicted_from_all_of_its_tracklets() -> None:
    size = Probe(1.0, (1.0, 0.0), 2.0, False, "")
    vectors = np.array([[2.0, 0.0], [0.0, 5.0], [3.0, 4.0]])
    first, second = read_polyps(size, None, vectors, np.array([0, 0, 1]))
    assert (first.size_mm, first.size_low_mm, first.size_high_mm) == (4.5, 2.2, 9.0)  # e^1.5
    assert second.size_mm == 5.0  # e^1.6
    assert first.adenoma is None
    for log_odds, chance in ((-9.0, 0.01), (0.5, 0.62), (9.0, 0.99)):  # none is a certainty
        adenoma = Probe(log_odds, (0.0, 0.0), None, False, "")
        assert read_polyps(None, adenoma, vectors[:1], np.array([0]))[0].adenoma == chance
    assert np.allclose(mean_units(vectors, np.array([0, 0, 1])), [[0.5, 0.5], [0.6, 0.8]])
