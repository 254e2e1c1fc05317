import itertools

from polyplink.simulate.streams import stream


def test_streams_depend_on_seed_procedure_and_concern_alone() -> None:
    names = list(itertools.product((0, 1), ("001-001", "001-010"), ("course", "camera")))
    draws = {name: stream(*name).random() for name in names}
    assert len(set(draws.values())) == 8
    assert all(stream(*name).random() == draws[name] for name in reversed(names))


def test_a_name_is_not_taken_for_another() -> None:
    assert stream(0, "a", "b/c").random() == stream(0, "a/b", "c").random()  # never both in use
    assert stream(0, "ab", "c").random() != stream(0, "a", "bc").random()
