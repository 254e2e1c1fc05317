import dataclasses
from pathlib import Path

import pytest

from polyplink.core.artefacts import read_json, write_json
from polyplink.core.errors import PolyplinkError
from polyplink.simulate.origin import Origin, at_difficulty, is_simulation, key_path, read_origin
from polyplink.simulate.presets import smoke

ORIGIN = Origin(smoke(), 3, "cpu")


def test_a_folder_tells_what_it_was_made_from(tmp_path: Path) -> None:
    assert not is_simulation(tmp_path)
    ORIGIN.claim(tmp_path)
    assert is_simulation(tmp_path)
    assert read_origin(tmp_path) == ORIGIN
    assert read_origin(tmp_path).key == ORIGIN.key


def test_the_same_simulation_goes_on_and_others_are_refused(tmp_path: Path) -> None:
    ORIGIN.claim(tmp_path)
    ORIGIN.claim(tmp_path)
    harder = dataclasses.replace(smoke(), difficulty=0.75)
    for other in (Origin(smoke(), 4, "cpu"), Origin(smoke(), 3, "cuda"), Origin(harder, 3, "cpu")):
        with pytest.raises(
            PolyplinkError, match=r"holds preset smoke, seed 3, difficulty 0.5, .*device cpu"
        ):
            other.claim(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(PolyplinkError, match="holds something else; choose an empty folder"):
        ORIGIN.claim(tmp_path)
    with pytest.raises(PolyplinkError, match="holds something else"):
        ORIGIN.claim(tmp_path / "mine.txt")


def test_another_version_is_refused(tmp_path: Path) -> None:
    dataclasses.replace(ORIGIN, polyplink="0.0.1").claim(tmp_path)
    with pytest.raises(PolyplinkError, match=r"by polyplink 0\.0\.1, .*; install polyplink 0"):
        read_origin(tmp_path)


def test_a_broken_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolyplinkError, match=r"key\.json is missing"):
        read_origin(tmp_path)
    ORIGIN.claim(tmp_path)
    key = read_json(key_path(tmp_path))
    write_json(key_path(tmp_path), key | {"seed": "often"})
    with pytest.raises(PolyplinkError, match=r"key\.json is broken .*; simulate again"):
        read_origin(tmp_path)
    write_json(key_path(tmp_path), key | {"preset": key["preset"] | {"difficulty": 7}})
    with pytest.raises(PolyplinkError, match="difficulty is 7"):
        read_origin(tmp_path)
    write_json(key_path(tmp_path), [1])
    with pytest.raises(PolyplinkError, match="by polyplink None"):
        read_origin(tmp_path)
    with pytest.raises(PolyplinkError, match="holds a simulation whose key is broken"):
        ORIGIN.claim(tmp_path)


def test_another_difficulty_is_told_by_the_name() -> None:
    assert at_difficulty(smoke(), None) == smoke()
    assert at_difficulty(smoke(), smoke().difficulty) == smoke()
    harder = at_difficulty(smoke(), 0.8)
    assert (harder.name, harder.difficulty) == ("smoke@0.8", 0.8)
