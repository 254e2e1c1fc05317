import numpy as np

from polyplink.report.drawn_matrix import draw_matrices, polyp_order


def test_polyps_stand_together_by_time() -> None:
    positions = np.array([0.5, 0.1, 0.9, 0.2])
    assert polyp_order([7, 3, 7, 3], positions).tolist() == [1, 3, 0, 2]


def test_one_panel_for_each_encoder_with_its_cosines() -> None:
    vectors = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
    figure = draw_matrices({"a": vectors, "b": vectors}, [0, 1, 0], np.array([0, 0.5, 1]), "made")
    panel = figure.axes[0].images[0].get_array()
    assert panel is not None
    half = np.sqrt(0.5)
    expected = [[1, half, 0], [half, 1, half], [0, half, 1]]
    assert np.allclose(panel, expected)
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == ["a", "b"]
