"""What the reports of count and evaluate have in common."""

from dataclasses import replace

from polyplink.associate import Clustering
from polyplink.jobs import embed_data
from polyplink.jobs.operating import from_record, untuned
from polyplink.jobs.reporting import association_warnings, link_all, report_on
from tests.conftest import Made


def test_the_page_holds_every_procedure_and_says_what_to_doubt(made: Made) -> None:
    done = embed_data(made.run, made.data, device="cpu")
    operating = from_record(done.loaded.record.operating)
    linked = link_all(done, operating)
    assert association_warnings(operating, linked) == ()
    page = report_on(
        "T", made.run, done, operating, linked, seconds={"embed": 1.0}, warnings=("mine",)
    )
    assert [p.procedure_id for p in page.procedures] == list(done.prepared.procedures)
    assert page.training is not None
    assert page.warnings == ("mine",)
    stuck = replace(linked[0], clustering=Clustering(linked[0].clustering.labels, False))
    said = association_warnings(untuned("no labels"), [stuck, *linked[1:]])
    assert said == (
        "Links carry no sureness (not tuned: no labels).",
        "Affinity propagation did not converge in 001-001.",
    )
