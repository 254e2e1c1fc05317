"""What is wrong with a data set, before it costs a night."""

from collections.abc import Callable
from pathlib import Path

from polyplink.data.checks.check_boxes import check_boxes, check_gaps, check_identities
from polyplink.data.checks.check_images import check_images
from polyplink.data.checks.check_names import check_names
from polyplink.data.checks.check_pixels import check_pixels
from polyplink.data.checks.check_procedures import (
    check_contents,
    check_overlaps,
    check_splits,
)
from polyplink.data.checks.findings import SEVERITIES, Finding
from polyplink.data.checks.licences import check_licences
from polyplink.data.tables import DataSet


def diagnose(
    data: DataSet,
    *,
    images: bool,
    deep: bool = False,
    folder: Path = Path(),
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Run every check on a data set.

    Args:
        data: The data set.
        images: Look for the images too: folders are listed, and a sample is opened.
        deep: Open all images, those in archives and videos included.
        folder: The data folder, which relative sources are relative to.
        progress: Called with images opened and images to open.

    Returns:
        The findings, worst first; empty where nothing is odd.
    """
    findings = [
        *check_splits(data),
        *check_overlaps(data),
        *check_boxes(data),
        *check_identities(data),
        *check_names(data),
        *check_contents(data),
        *check_gaps(data),
        *check_licences(data),
    ]
    if images or deep:
        findings += check_images(data, folder)
        findings += check_pixels(data, folder, deep=deep, progress=progress)
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
