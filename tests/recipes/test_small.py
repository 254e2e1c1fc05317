"""The small recipes compare methods at one budget."""

from polyplink.learn import PolypViews, TemporalBags, TrainConfig
from polyplink.learn.bags import rng_of
from polyplink.recipes import RECIPES, find_recipe, small_sibling
from polyplink.recipes.small import FRAMES
from tests.learn.sets import bare_set

SMALL = [recipe() for name, recipe in RECIPES.items() if name.endswith("-small")]
# Crops of the first tracklets that `small` trains on, by polyp (seed 0), three times over.
CROPS = 3 * [
    [13, 11, 11, 8], [12, 11, 15, 15, 15], [8, 8, 8, 8], [12, 8, 13, 11, 14], [13, 8, 8, 8],
    [11, 9, 9, 12, 13, 12], [12, 14, 13, 15], [15, 15, 15], [15, 12, 15, 14, 11], [12, 15, 15],
    [8, 8, 8, 15, 8], [15, 12, 14, 12, 11], [14, 10, 15, 15], [12, 14, 15, 11, 8], [8, 9, 8],
    [11, 9, 10, 12], [15, 11, 14], [15, 13, 15, 10], [8, 14, 9], [9, 11, 10, 10, 8],
    [8, 12, 10], [12, 11, 12], [10, 12, 14, 15], [15, 9, 8], [13, 8, 8, 10, 8], [14, 15, 15, 15],
]  # fmt: skip
LENGTHS = [crops for polyp in CROPS for crops in polyp]
POLYPS = [i for i, polyp in enumerate(CROPS) for _ in polyp]
DATA = bare_set(LENGTHS, POLYPS, fragment=2)


def frames_seen(config: TrainConfig) -> tuple[int, int]:
    """Of a training, and of its fullest step."""
    size, total, step = config.optim.bags_per_batch, 0, 0
    for epoch in range(config.optim.epochs):
        drawn = config.bags.draw(DATA, epoch / config.optim.epochs, size, rng_of(epoch))
        total += int(drawn.bags.valid.sum()) * drawn.clips.shape[1]
        step = max(step, int(drawn.bags.valid[:size].sum()) * drawn.clips.shape[1])
    return total, step


def test_all_share_backbone_crops_and_validation() -> None:
    assert len(SMALL) == 7
    for config in SMALL:
        assert getattr(config.encoder, "frame_encoder", "") == "timm:test_resnet"
        assert config.prepare == SMALL[0].prepare
        assert config.validation == SMALL[0].validation
        assert config.validation.select == "last"  # no label chooses a checkpoint


def test_all_see_nearly_as_many_frames() -> None:
    totals = {}
    for config in SMALL:
        totals[config.name], step = frames_seen(config)
        assert step == FRAMES, config.name
    assert min(totals.values()) > 0.9 * max(totals.values()), totals


def test_they_are_the_methods() -> None:
    by_name = {config.name: config for config in SMALL}
    assert isinstance(by_name["ntssl-small"].bags, TemporalBags)
    assert isinstance(by_name["temporally-aware-small"].bags, PolypViews)


def test_a_variant_keeps_its_bags_and_loss() -> None:
    for name in ("ntssl-frame", "ntssl-tracklet", "ntssl-nearest", "ntssl-fixed", "sfe-uniform"):
        recipe, small = find_recipe(name), small_sibling(find_recipe(name))
        assert small is not None
        assert (small.name, small.bags, small.loss) == (f"{name}-small", recipe.bags, recipe.loss)
        method = find_recipe(f"{name.split('-')[0]}-small")
        assert (small.encoder, small.optim) == (method.encoder, method.optim)


def test_views_of_a_variant_fill_the_same_step() -> None:
    small = small_sibling(find_recipe("temporally-aware-4x14"))
    assert small is not None
    assert isinstance(small.bags, PolypViews)
    assert small.optim.bags_per_batch * small.bags.views * 2 <= FRAMES
    assert small.optim.bags_per_batch * (small.bags.views + 1) * 2 > FRAMES * 0.8


def test_a_method_has_its_own_and_a_fine_tuned_encoder_none() -> None:
    assert small_sibling(find_recipe("tpc")) == find_recipe("tpc-small")
    assert small_sibling(find_recipe("endofm-supervised")) is None
