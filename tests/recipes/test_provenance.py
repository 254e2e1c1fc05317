"""The sources that `recipes show` gives for fields of recipes."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from polyplink.recipes.by_name import RECIPES, find_recipe
from polyplink.recipes.ntssl import ntssl
from polyplink.recipes.provenance import _COMMON, _FAMILIES, FieldSource, field_sources
from tests.cli.calls import polyplink


@cache
def sources_of(name: str) -> Sequence[FieldSource]:
    return field_sources(find_recipe(name))


@pytest.mark.parametrize("name", [*RECIPES, "ta384-sfe", "ta384-mve", "ta384-supervised"])
def test_every_field_has_a_source(name: str) -> None:
    fields = sources_of(name)
    assert len({field.name for field in fields}) == len(fields) > 30
    if name.endswith(("-small", "-demo")):
        assert {field.source for field in fields} == {"ours"}
    else:
        without_source = [f.name for f in fields if f.source == "ours" and not f.note]
        assert set(without_source) <= {"name", "init_from", "bags.window"}
        by_name = {field.name: field.source for field in fields}
        assert by_name["part"] == "text"
        assert by_name["fragment_length"] == "text"


def test_every_entry_of_the_source_tables_names_a_field() -> None:
    names = [*RECIPES, "ta384-mve"]
    all_fields = {f.name for name in names for f in sources_of(name)}
    groups = {".".join(name.split(".")[:n]) for name in all_fields for n in range(1, 5)}
    for table in (_COMMON, *_FAMILIES.values()):
        assert set(table) <= groups


def test_fields_from_the_program_or_the_text_have_that_source() -> None:
    fields = {f.name: f for f in sources_of("ntssl")}
    assert fields["loss.form"].source == "program"
    assert fields["bags.k"].source == "text"
    assert fields["augment.hue"].source == "program"
    assert fields["finetune.rank"].source == "unused"
    anchored = {f.name: f.source for f in sources_of("ntssl-text")}
    assert anchored["loss.form"] == "text"  # its value is from equation 1
    fixed = {f.name: f.source for f in sources_of("ntssl-fixed")}
    assert (fixed["bags.tau_min"], fixed["bags.k"]) == ("ours", "text")
    ta384_mve = {f.name: f for f in sources_of("ta384-mve")}
    assert (ta384_mve["part"].value, ta384_mve["part"].source) == ("ta384", "text")
    assert (ta384_mve["encoder.kind"].value, ta384_mve["encoder.kind"].source) == ("mve", "program")
    assert ta384_mve["optim.warm_up"].source == "unused"  # because the rate is constant
    assert (ta384_mve["optim.rate"].value, ta384_mve["optim.rate"].source) == (1e-4, "program")
    assert {f.name: f.source for f in sources_of("sfe")}["optim.rate"] == "ours"
    thesis = {f.name: f.source for f in sources_of("endofm-supervised")}
    assert (thesis["encoder.tone"], thesis["encoder.projector_out"]) == ("ours", "ours")


def test_a_recipe_of_the_user_claims_no_source_of_another_value() -> None:
    loss = replace(ntssl().loss, temperature=0.2)
    for name, form, note in (
        ("ntssl", "program", "0.07 in the built-in recipe"),
        ("ntssl-mine", "ours", ""),
        ("my-small", "ours", ""),
    ):
        fields = {f.name: f for f in field_sources(replace(ntssl(), name=name, loss=loss))}
        temperature = fields["loss.temperature"]
        assert (temperature.source, temperature.note) == ("ours", note)
        assert fields["loss.form"].source == form


def test_recipes_show_lists_every_field_and_marks_set_ones() -> None:
    result = polyplink("recipes", "show", "ntssl", "--set", "optim.rate=0.1", "--json")
    fields = {field["name"]: field for field in json.loads(result.stdout)}
    assert list(fields) == [field.name for field in sources_of("ntssl")]
    assert fields["loss.temperature"]["source"] == "program"
    rate = fields["optim.rate"]
    assert (rate["value"], rate["source"], rate["note"]) == (
        0.1,
        "ours",
        "set; 1e-05 in the recipe",
    )
    text = polyplink("recipes", "show", "ntssl").stdout
    assert all(words in text for words in ("bags.k", "text", "program", "ours"))
