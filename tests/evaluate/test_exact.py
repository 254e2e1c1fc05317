import numpy as np

from polyplink.associate.similarity import cosines, unit_rows
from polyplink.evaluate.exact import exact_cosine, own_cosines


def test_one_cosine_equals_the_matrix() -> None:
    unit = unit_rows(np.random.default_rng(0).normal(size=(20, 37)))
    matrix = cosines(unit, unit)
    found = [[exact_cosine(a, b) for b in unit] for a in unit]
    np.testing.assert_allclose(found, matrix, rtol=0, atol=1.1e-12)
    np.testing.assert_array_equal(found, np.round(found, 12))
    np.testing.assert_array_equal(found, np.transpose(found))


def test_pairs_of_groups_come_row_by_row() -> None:
    unit = unit_rows(np.random.default_rng(1).normal(size=(6, 5)))
    stop = np.array([3, 3, 3, 4, 6, 6])
    pairs = [(0, 1), (0, 2), (1, 2), (4, 5)]
    expected = [exact_cosine(unit[i], unit[j]) for i, j in pairs]
    np.testing.assert_array_equal(own_cosines(unit, stop), expected)
