"""The verbs that join the command line, by the entry point `polyplink.verbs`."""

from polyplink_lab.cli.bench import bench
from polyplink_lab.cli.demo import demo
from polyplink_lab.cli.reproduce import reproduce
from polyplink_lab.cli.simulate import simulate
from polyplink_lab.cli.study import study

SECTIONS = {
    "Research": {
        "demo": demo,
        "simulate": simulate,
        "study": study,
        "reproduce": reproduce,
        "bench": bench,
    }
}
"""Verbs by section of `polyplink --help`, and by name."""
