"""Every method at a size that trains in minutes on one CPU core, with equal budgets.

All recipes share the backbone, the crops, 240 frames per step and nearly the same total number of
frames: only the method differs. They are meant for `polyplink simulate --preset small`; there are
no published rows.
"""

from dataclasses import replace

from polyplink.encoders.config import MveConfig, SfeConfig
from polyplink.learn.noise_aware import NoiseAwareLoss
from polyplink.learn.pairs import PolypParts, TrackletParts
from polyplink.learn.polyp_views import PolypViews
from polyplink.learn.soft_targets import IntraInterLoss, SupervisedLoss, TemporallyAwareLoss
from polyplink.learn.train_config import OptimConfig, TrainConfig
from polyplink.recipes.earlier import sfe
from polyplink.recipes.ntssl import ntssl_demo

BACKBONE = "timm:test_resnet"
FRAMES = 240  # per step
EPOCHS = 6  # of NTSSL, with every fragment five times per epoch; other methods have more epochs
SUPERVISED_EPOCHS = 24  # slightly over the budget, as the last bags of an epoch are filled up
VIEWS = 8  # per polyp of the supervised methods


def _optim(config: TrainConfig, frames_per_bag: int, epochs: int) -> OptimConfig:
    size = FRAMES // frames_per_bag
    return replace(config.optim, bags_per_batch=size, epochs=epochs, rate=1e-3, precision=None)


def ntssl_small() -> TrainConfig:
    """NTSSL: 24 bags of five fragments of two crops per step.

    Command: polyplink train ntssl-small DATA --out RUN
    """
    config = ntssl_demo()
    return replace(config, name="ntssl-small", optim=_optim(config, 10, EPOCHS))


def other_procedures_small() -> TrainConfig:
    """Ours: NTSSL with negatives from other procedures only, and a one-cycle learning rate.

    Views of one procedure in different bags often show the same polyp; NTSSL pushes them apart.
    See docs/explanation/our-methods.md.

    Command: polyplink train other-procedures-small DATA --out RUN
    """
    config = ntssl_small()
    return replace(
        config,
        name="other-procedures-small",
        loss=NoiseAwareLoss(negatives="other_procedures"),
        optim=replace(config.optim, schedule="one_cycle", rate=2e-3),
    )


def tone_small() -> TrainConfig:
    """Ours: other-procedures-small with the whitened colours of the crops added to its vector.

    The whitening is fitted to the training crops without labels: docs/explanation/our-methods.md.

    Command: polyplink train tone-small DATA --out RUN
    """
    config = other_procedures_small()
    return replace(config, name="tone-small", encoder=replace(config.encoder, tone=1.4))


def sfe_small() -> TrainConfig:
    """SFE: 120 pairs of frames per step.

    Command: polyplink train sfe-small DATA --out RUN
    """
    demo = ntssl_demo()
    return replace(
        sfe(),
        name="sfe-small",
        encoder=SfeConfig(frame_encoder=BACKBONE, projector_hidden=256),
        prepare=demo.prepare,
        evaluation_stride=None,
        fragment_length=demo.fragment_length,
        optim=_optim(sfe(), 2, 5 * EPOCHS),
        validation=demo.validation,
        part=demo.part,
    )


def mve_small() -> TrainConfig:
    """MVE: 60 pairs of parts of two crops per step.

    Command: polyplink train mve-small DATA --out RUN
    """
    config = sfe_small()
    encoder = MveConfig(
        frame_encoder=BACKBONE, frame_hidden=256, layers=1, heads=4, feedforward=256
    )
    return replace(
        config,
        name="mve-small",
        encoder=encoder,
        bags=TrackletParts(),
        optim=_optim(config, 4, 5 * EPOCHS // 2),
    )


def tpc_small() -> TrainConfig:
    """TPC: MVE with increasingly difficult pairs.

    Command: polyplink train tpc-small DATA --out RUN
    """
    return replace(mve_small(), name="tpc-small", bags=PolypParts())


def supervised_small() -> TrainConfig:
    """Supervised: 8 views of each of 15 polyps per step, with two crops per view.

    Command: polyplink train supervised-small DATA --out RUN
    """
    config = ntssl_small()
    return replace(
        config,
        name="supervised-small",
        bags=PolypViews(views=VIEWS, refill=True),
        loss=SupervisedLoss(),
        optim=_optim(config, 2 * VIEWS, SUPERVISED_EPOCHS),
    )


def temporally_aware_small() -> TrainConfig:
    """Temporally aware: the same batches, with higher weights for views nearer in time.

    Command: polyplink train temporally-aware-small DATA --out RUN
    """
    return replace(supervised_small(), name="temporally-aware-small", loss=TemporallyAwareLoss())


def intra_inter_small() -> TrainConfig:
    """Intra-inter: the same batches, with small weights for other views of the procedure.

    Command: polyplink train intra-inter-small DATA --out RUN
    """
    return replace(supervised_small(), name="intra-inter-small", loss=IntraInterLoss())


SMALL = (
    ntssl_small,
    other_procedures_small,
    tone_small,
    sfe_small,
    mve_small,
    tpc_small,
    supervised_small,
    temporally_aware_small,
    intra_inter_small,
)


def small_sibling(recipe: TrainConfig) -> TrainConfig | None:
    """The small version of a recipe: its method's small recipe with the recipe's bags and loss.

    Args:
        recipe: The recipe of a published row, such as `ntssl_frame()`.

    Returns:
        The small recipe, NAME-small; None if the method has none (fine-tuned encoders).
    """
    configs = [make() for make in SMALL]
    small_by_name = {config.name.removesuffix("-small"): config for config in configs}
    if recipe.name in small_by_name:
        return small_by_name[recipe.name]
    name_parts = recipe.name.split("-")
    starts = ["-".join(name_parts[:end]) for end in range(len(name_parts) - 1, 0, -1)]
    base = next((small_by_name[start] for start in starts if start in small_by_name), None)
    if base is None:
        return None
    name = f"{recipe.name}-small"
    varied = replace(base, name=name, bags=recipe.bags, loss=recipe.loss)
    if not isinstance(recipe.bags, PolypViews):
        return varied
    optim = _optim(base, 2 * recipe.bags.views, base.optim.epochs)
    return replace(varied, bags=replace(recipe.bags, refill=True), optim=optim)
