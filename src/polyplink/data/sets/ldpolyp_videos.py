"""The video files of LDPolypVideo, which have a label for the whole video and no boxes.

Source: Ma et al., MICCAI 2021: 103 videos besides the annotated ones, some of them in a folder
such as `videos without polyps`. Those show no polyp in any frame, so they are procedures without
a box; of the others nothing is known but that there is a polyp somewhere.
"""

import re
from pathlib import Path

from polyplink.core.errors import PolyplinkError
from polyplink.data.faults import Faults
from polyplink.data.files.archives import INSIDE
from polyplink.data.files.trees import Tree
from polyplink.data.files.video import is_video, open_video
from polyplink.data.formats.edge_boxes import ProcedureRow
from polyplink.data.sets.origin import Origin

PART = "negative"

_WITHOUT = re.compile(r"(?:^|/)[^/]*without[^/]*/", re.I)


def negative_videos(tree: Tree, origin: Origin, faults: Faults) -> list[ProcedureRow]:
    """Find the videos without polyp, in order of their number or name.

    Args:
        tree: The tree.
        origin: For the columns dataset and source.
        faults: Told of videos with a polyp somewhere, which are left out, and of those that
            cannot be read.

    Returns:
        One procedure `negative_<name>` for each file below a folder whose name says `without`.

    Raises:
        PolyplinkError: If strict, at the first video that cannot be read.
    """
    rows: dict[str, ProcedureRow] = {}
    for member in tree.members:
        if not is_video(member.name):
            continue
        name = f"{PART}_{member.name.rpartition('.')[0]}"
        if not _WITHOUT.search(member.path):
            kind = "video with a label for the whole of it and no boxes, left out"
            faults.warn(kind, member.image)
        elif INSIDE in member.image:
            faults.fault("video inside an archive", member.image, "unpack it")
        elif name in rows:
            faults.fault("second video of a name", member.image, "rename one of them")
        else:
            try:
                rows[name] = _row(origin, member.image, name)
            except PolyplinkError as error:
                if faults.strict:
                    raise
                faults.warn("video that cannot be read, left out", error.what)
    return [rows[name] for name in sorted(rows, key=lambda name: (len(name), name))]


def _row(origin: Origin, image: str, name: str) -> ProcedureRow:
    with open_video(Path(origin.source) / image) as video:
        return ProcedureRow(
            procedure_id=name,
            dataset=origin.dataset,
            patient=name,
            n_frames=video.n_frames,
            width=video.width,
            height=video.height,
            source=origin.source,
            fps=video.fps,
        )
