from polyplink.data.overlaps import known_overlap, plain_name


def test_known_overlaps_go_both_ways_whatever_the_spelling() -> None:
    assert plain_name("REAL_Colon ") == plain_name("real-colon")
    assert known_overlap("SUN", "sun_seg") == known_overlap("SUN-SEG", "sun") is not None
    assert known_overlap("sun", "real-colon") is None
    assert known_overlap("sun", "sun") is None
