from pathlib import Path

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.read_members import read_members
from polyplink.data.files.texts import decode_text
from polyplink.data.files.trees import open_tree


def test_what_cannot_be_parsed_is_counted(tmp_path: Path) -> None:
    for name, data in (("a.txt", b"a"), ("b.txt", b"\xff"), ("c.txt", b"c")):
        (tmp_path / name).write_bytes(data)
    tree = open_tree(tmp_path, Faults())
    faults = Faults()
    read = read_members(tree, tree.members, decode_text, faults)
    assert {member.name: text for member, text in read.items()} == {"a.txt": "a", "c.txt": "c"}
    assert faults.lines() == [
        "1 x annotation file that cannot be read, left out (first: b.txt is not UTF-8 text)"
    ]
    with pytest.raises(PolyplinkError, match=r"b\.txt is not UTF-8 text; save it as UTF-8"):
        read_members(tree, tree.members, decode_text, Faults(strict=True))
