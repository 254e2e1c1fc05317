"""Read PolypsSet (KUMC): 39 polyps in val and test, and 28,773 shuffled images of training.

Source: Li et al., PLOS ONE 2021; Harvard Dataverse doi:10.7910/DVN/FCBUOR. One polyp a video. The
training part is shuffled across its sequences, so nothing in it has an identity.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from polyplink.data.faults import Faults
from polyplink.data.files.trees import Tree, open_tree
from polyplink.data.formats.edge_boxes import EdgeBox, PolypRow, ProcedureRow, join_edges
from polyplink.data.sets.origin import Origin, read_origin
from polyplink.data.sets.plain_voc import parse_plain_voc
from polyplink.data.sets.polypsset_files import PARTS, VideoFiles, find_videos
from polyplink.data.sets.recognise import nothing_found
from polyplink.data.tables import Imported
from polyplink.data.vocabulary import ADENOMA

DATASET = "polypsset"
TRAIN_STEP = 2  # between two images of training: they are shuffled, and must not be linked

_Size = tuple[int, int]


def import_polypsset(
    source: Path,
    *,
    images: bool = True,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
) -> Imported:
    """Read PolypsSet into the three tables.

    Procedures and polyps are `val_<folder>` and `test_<folder>`; the frame number is the file's.
    Images of training become one procedure for each size (`train_384x288`) without a polyp id,
    all of one patient, on every second frame number, so that no two of them are linked. A frame's
    size is that of its image; without images that of the XML. The parts are train, val and test.

    Args:
        source: A folder above `train2019`, `val2019` or `test2019`, plain or in an archive, or
            the archive.
        images: Name each box's image, where there are images.
        strict: Raise at the first fault instead of leaving it out and counting it. Annotations
            without image are part of the release and only counted.
        progress: Called after every procedure with how many are read and how many there are.
        workers: Taken so that all importers are called alike; one process reads this set.

    Returns:
        The data set and its warnings.

    Raises:
        PolyplinkError: If the folder is not of this set or an archive is broken; if strict, at
            the first faulty file or box.
    """
    del workers
    faults = Faults(strict)
    tree = open_tree(source, faults)
    videos = find_videos(tree, faults)
    if not videos:
        wanted = "folder train2019, val2019 or test2019 with Image and Annotation"
        raise nothing_found(tree, str(source), wanted, DATASET)
    _read(tree, videos, faults)
    origin = read_origin(tree, DATASET)
    procedures, polyps, boxes = [], [], []
    for done, video in enumerate(videos, 1):
        groups = _by_size(video) if video.folder is None else [(video.name, _usual(video), video)]
        for name, size, group in groups:
            procedures.append(_procedure(origin, name, size, group))
            found = list(_boxes(name, size, group, images, faults))
            if found and video.folder is not None:
                polyps.append(_polyp(video, faults))
            boxes += found
        if progress is not None:
            progress(done, len(videos))
    owners = [row.procedure_id for row in procedures]
    for row in procedures:
        if row.patient == row.procedure_id:
            kind = "video whose patient is not published, taken as its own patient"
            faults.warn(kind, row.procedure_id)
    splits = {part: [name for name in owners if name.startswith(f"{part}_")] for part in PARTS}
    return Imported(join_edges(boxes, procedures, polyps, splits, faults), faults.lines())


def _read(tree: Tree, videos: list[VideoFiles], faults: Faults) -> None:
    """Read annotations and image sizes; what cannot be of use is taken out of the videos."""
    pictures = {m: (video, i) for video in videos for i, m in video.images.items()}
    for member, size in tree.image_sizes(list(pictures), faults).items():
        video, number = pictures[member]
        video.sizes[number] = size
    for video in videos:
        _drop_orphans(video, faults)
    xmls = {m: (video, i) for video in videos for i, m in video.xmls.items()}
    for member, frame in tree.parse_each(xmls, parse_plain_voc, faults).items():
        video, number = xmls[member]
        if video.images and frame.size not in (None, video.sizes[number]):
            faults.warn("size in the XML is not the image's, which counts", member.image)
        elif not video.images and frame.size is None:
            faults.fault("annotation without a size or an image", member.image, "unpack the images")
            continue
        elif not video.images and frame.size is not None:
            faults.warn("frame without an image, its size taken from the XML", member.image)
            video.sizes[number] = frame.size
        video.frames[number] = frame
    videos[:] = [video for video in videos if video.sizes]


def _drop_orphans(video: VideoFiles, faults: Faults) -> None:
    for number in sorted(video.xmls):
        if video.images and number not in video.images:
            faults.warn("annotation without an image, left out", video.xmls[number].image)
        if video.images and number not in video.sizes:
            del video.xmls[number]
    for number in sorted(video.images):
        if number not in video.xmls and number in video.sizes:
            kind = "image without an annotation, taken as without polyp"
            faults.warn(kind, video.images[number].image)


def _usual(video: VideoFiles) -> _Size:
    """The most frequent size of a video's frames, the first of them if there are several."""
    return Counter(video.sizes[number] for number in sorted(video.sizes)).most_common(1)[0][0]


def _by_size(video: VideoFiles) -> Iterator[tuple[str, _Size, VideoFiles]]:
    """The images of training in groups of one size, renumbered so that none follows another."""
    numbers: dict[_Size, list[int]] = {}
    for number in sorted(video.sizes):
        numbers.setdefault(video.sizes[number], []).append(number)
    for size in sorted(numbers):
        group = VideoFiles(video.part, None)
        for i, number in enumerate(numbers[size]):
            new = i * TRAIN_STEP
            group.sizes[new] = size
            for old, files in ((video.images, group.images), (video.xmls, group.xmls)):
                if number in old:
                    files[new] = old[number]
            if number in video.frames:
                group.frames[new] = video.frames[number]
        yield f"train_{size[0]}x{size[1]}", size, group


def _procedure(origin: Origin, name: str, size: _Size, video: VideoFiles) -> ProcedureRow:
    return ProcedureRow(
        procedure_id=name,
        dataset=origin.dataset,
        patient=video.name,
        n_frames=max(video.sizes) + 1,
        width=size[0],
        height=size[1],
        source=origin.source,
    )


def _boxes(
    name: str, size: _Size, video: VideoFiles, images: bool, faults: Faults
) -> Iterator[EdgeBox]:
    polyp_id = None if video.folder is None else name
    for number in sorted(video.frames):
        objects, where = video.frames[number].objects, video.xmls[number].image
        if objects and video.sizes[number] != size:
            kind = "frame with a box of another size than most of its video"
            faults.fault(kind, where, "resize the image and its boxes")
            continue
        if len(objects) > 1 and polyp_id is not None:
            faults.warn("frame with several boxes of one polyp, all kept", where)
        image = video.images[number].image if images and video.images else None
        for box in objects:
            yield EdgeBox(name, number, polyp_id, image, where, *box.edges)


def _polyp(video: VideoFiles, faults: Faults) -> PolypRow:
    """The one polyp of a video; its histology is the word that all its boxes bear."""
    words = sorted({box.name.lower() for f in video.frames.values() for box in f.objects})
    if len(words) > 1:
        faults.warn("polyp with boxes of several classes, histology not taken", video.name)
        return PolypRow(video.name, video.name)
    word = words[0] or None
    known = word if word in ADENOMA["polypsset"] else None
    if known is None:
        faults.warn(
            "class of a box that is not known, no histology class", f"{video.name} ({word})"
        )
    return PolypRow(video.name, video.name, histology=word, histology_class=known)
