from io import BytesIO

import pytest

from polyplink.core.errors import PolyplinkError
from polyplink.data.formats.cvat_xml import parse_cvat


def test_columns_of_texts() -> None:
    file = parse_cvat(
        BytesIO(
            b"<annotations><version>1.1</version><meta><task><id>7</id><name>a &lt; b</name>"
            b"<labels><label><name>polyp</name></label></labels><original_size><width>64</width>"
            b"</original_size><segments><segment><id>9</id></segment></segments></task>"
            b"<source>v.mp4</source></meta>"
            b'<track id="1" label="polyp"><box frame="0" xtl="1"><attribute name="polyp_id">p'
            b'</attribute></box><points frame="1"/></track></annotations>'
        ),
        "a.xml",
    )
    assert file.version == "1.1"
    assert file.tasks == [{"id": "7", "name": "a < b", "width": "64", "source": "v.mp4"}]
    assert file.tracks == [(None, "1", "polyp", "box"), (None, "1", "polyp", "points")]
    assert file.boxes == [{"frame": "0", "xtl": "1"}, {"frame": "1"}]
    assert file.told == [{"polyp_id": "p"}, {}]
    assert file.images == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_document_type_is_refused_before_anything_is_expanded(encoding: str) -> None:
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 20))
    text = f'<!DOCTYPE annotations [<!ENTITY l0 "ha">{laughs}]><annotations>&l19;</annotations>'
    with pytest.raises(PolyplinkError, match=r"a\.xml has a document type, which is not read"):
        parse_cvat(BytesIO(text.encode(encoding)), "a.xml")


def test_what_is_no_xml() -> None:
    for content in (b"", b"frame,1", b"<annotations><track>"):
        with pytest.raises(PolyplinkError, match=r"a\.xml is not whole XML"):
            parse_cvat(BytesIO(content), "a.xml")
