"""Size and histology from vectors."""

import numpy as np

from polyplink.associate.probes import Probe, fit_adenoma, fit_size, mean_units, read_polyps

RNG = np.random.default_rng(0)
UNITS = RNG.normal(size=(90, 12))
PATIENTS = [f"p{i // 3}" for i in range(90)]


def test_what_vectors_tell_is_read_and_noise_is_refused() -> None:
    planted = 1.5 + 0.4 * UNITS[:, 0] + RNG.normal(0, 0.2, 90)  # log mm
    size = fit_size(UNITS, np.exp(planted).tolist(), PATIENTS, simulated=False)
    adenoma = fit_adenoma(UNITS, (UNITS[:, 1] > 0.3).tolist(), PATIENTS, simulated=True)
    assert isinstance(size, Probe)
    assert isinstance(adenoma, Probe)
    assert "90 polyps of 30 patients" in size.origin
    new = RNG.normal(size=(400, 12))
    true = 1.5 + 0.4 * new[:, 0] + RNG.normal(0, 0.2, 400)
    assert size.factor is not None
    held = np.abs(size.values(new) - true) <= np.log(size.factor)
    assert 0.82 < held.mean() < 0.98
    assert ((adenoma.values(new) > 0) == (new[:, 1] > 0.3)).mean() > 0.85
    noise = fit_size(UNITS, RNG.permutation(np.exp(planted)).tolist(), PATIENTS, simulated=False)
    assert isinstance(noise, str)
    assert "not surely better than one value for all" in noise
    assert "at least 9 are needed" in str(
        fit_size(UNITS[:5], [3.0] * 5, list("abcde"), simulated=False)
    )
    assert "0 of 90" in str(fit_adenoma(UNITS, [False] * 90, PATIENTS, simulated=False))


def test_a_polyp_is_read_from_all_of_its_tracklets() -> None:
    size = Probe(1.0, (1.0, 0.0), 2.0, False, "")
    vectors = np.array([[2.0, 0.0], [0.0, 5.0], [3.0, 4.0]])
    one, other = read_polyps(size, None, vectors, np.array([0, 0, 1]))
    assert (one.size_mm, one.size_low_mm, one.size_high_mm) == (4.5, 2.2, 9.0)  # e^1.5
    assert other.size_mm == 5.0  # e^1.6
    assert one.adenoma is None
    assert np.allclose(mean_units(vectors, np.array([0, 0, 1])), [[0.5, 0.5], [0.6, 0.8]])
