"""What is wrong with a data set, before it costs a night."""

from polyplink.data.check_boxes import check_boxes, check_gaps, check_identities
from polyplink.data.check_images import check_images
from polyplink.data.check_procedures import check_contents, check_splits
from polyplink.data.findings import SEVERITIES, Finding
from polyplink.data.tables import DataSet


def diagnose(data: DataSet, *, images: bool) -> list[Finding]:
    """Run every check on a data set.

    Args:
        data: The data set.
        images: Look for the image files too (folders are listed, no file is opened).

    Returns:
        The findings, worst first; empty where nothing is odd.
    """
    findings = [
        *check_splits(data),
        *check_boxes(data),
        *check_identities(data),
        *check_contents(data),
        *check_gaps(data),
    ]
    if images:
        findings += check_images(data)
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
