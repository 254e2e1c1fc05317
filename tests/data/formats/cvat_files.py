"""Exports of CVAT for tests."""

from pathlib import Path

TASK = """<task><id>7</id><name>clip</name><size>9</size><mode>interpolation</mode>
<start_frame>0</start_frame><stop_frame>8</stop_frame><frame_filter></frame_filter>
<segments><segment><id>1</id><start>0</start><stop>8</stop></segment></segments>
<owner><username>u</username></owner><labels><label><name>polyp</name></label></labels>
<original_size><width>64</width><height>48</height></original_size></task>"""


def box(frame: int | str, fields: str = "", inner: str = "", edges: str = "") -> str:
    edges = edges or 'xtl="1.50" ytl="2.00" xbr="11.50" ybr="12.25"'
    return (
        f'<box frame="{frame}" keyframe="1" outside="0" occluded="0" {edges} {fields}>{inner}</box>'
    )


def track(*boxes: str, number: int = 3, fields: str = "") -> str:
    return f'<track id="{number}" label="polyp" source="manual" {fields}>{"".join(boxes)}</track>'


def document(*tracks: str, meta: str = TASK) -> str:
    source = "<dumped>2024</dumped><source>clip.mp4</source>"
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<annotations><version>1.1</version>'
        f"<meta>{meta}{source}</meta>{''.join(tracks)}</annotations>\n"
    )


def write(tmp_path: Path, *tracks: str, meta: str = TASK) -> Path:
    path = tmp_path / "annotations.xml"
    path.write_text(document(*tracks, meta=meta))
    return path


def named(polyp: str) -> str:
    return f'<attribute name="polyp_id">{polyp}</attribute><attribute name="clear">true</attribute>'
