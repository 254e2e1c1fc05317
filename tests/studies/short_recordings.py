"""Are polyps counted right if a recording shows few views?

    make study-short DATA="FOLDER [--weights NAME]"

FOLDER is a data folder of real sequences with polyp ids (`polyplink import`); each run of boxes is
a view. A pattern such as "AABC" is a recording of one view after the other: A, B and C are polyps
drawn at random, and their views are drawn without replacement. The links and the price are those
of the weights, so FOLDER must be a set that nothing was fitted on.
"""

import argparse
from pathlib import Path

import numpy as np

from polyplink.associate.identities import identify, recorded_point
from polyplink.associate.links import Views
from polyplink.counting.link import by_procedure
from polyplink.encoders.encode import encode
from polyplink.encoders.load import load_named
from polyplink.models.shipped import ENCODER
from tests.studies.real_frames import frame_options

PATTERNS = (
    *("AA", "AAA", "AAAA", "AB", "ABA", "AAB", "AABB", "ABAB"),
    *("AAAB", "ABC", "AABC", "ABCA", "AABBCC", "ABCABC", "ABCD"),
)
SECONDS_BETWEEN, SECONDS_IN_VIEW = 10.0, 1.0


def main() -> None:
    """Print a table with one row for each pattern."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="data folder with polyp ids")
    parser.add_argument("--weights", type=Path, default=Path(ENCODER))
    parser.add_argument("--max-gap", type=int, default=40, help="largest step within a view")
    parser.add_argument("--draws", type=int, default=200, help="recordings of each pattern")
    arguments = parser.parse_args()
    encoder = load_named(arguments.weights, "cpu", tracklets=frame_options(arguments.max_gap))
    assert encoder.record is not None
    point = recorded_point(encoder.record.operating)
    encoded = encode([encoder], arguments.data, "all")
    embeddings = encoded.embeddings[encoder.name]
    vectors: dict[str, list[np.ndarray]] = {}
    for procedure in by_procedure(encoded.prepared, embeddings):
        for polyp, vector in zip(procedure.polyps, procedure.views.vectors, strict=True):
            if polyp is not None:
                vectors.setdefault(polyp, []).append(vector)
    print(f"{sum(map(len, vectors.values()))} views of {len(vectors)} polyps\n")
    print("| pattern | counts that are right | counted too few | too many | mean error |")
    print("|---|---|---|---|---|")
    rng, mean_errors = np.random.default_rng(0), []
    for pattern in PATTERNS:
        errors = []
        for _ in range(arguments.draws):
            polyp_of: dict[str, str] = {}
            unused: dict[str, list[int]] = {}  # rows of the views not drawn yet
            for letter in dict.fromkeys(pattern):
                enough = [
                    polyp
                    for polyp, views in vectors.items()
                    if len(views) >= pattern.count(letter) and polyp not in polyp_of.values()
                ]
                polyp_of[letter] = polyp = enough[int(rng.integers(len(enough)))]
                unused[letter] = rng.permutation(len(vectors[polyp])).tolist()
            drawn = np.stack([vectors[polyp_of[k]][unused[k].pop()] for k in pattern])  # n d
            start = np.arange(0.0, SECONDS_BETWEEN * len(pattern), SECONDS_BETWEEN)
            views = Views(drawn, start, start + SECONDS_IN_VIEW)
            identities = identify(views, start / max(start[-1], 1.0), point)
            errors.append(len(identities.names) - len(polyp_of))
        error = np.array(errors)
        mean_errors.append(np.abs(error).mean())
        shares = [np.mean(error == 0), np.mean(error < 0), np.mean(error > 0)]
        print(f"| {' '.join(pattern)} |", " | ".join(f"{share:.2f}" for share in shares), end="")
        print(f" | {mean_errors[-1]:.3f} |")
    print(f"\nmean error over the patterns {np.mean(mean_errors):.3f}")


if __name__ == "__main__":
    main()
