"""polyplink gives every polyp of a colonoscopy one identity.

Every command is a function of this package:

    >>> import polyplink
    >>> polyplink.run("colonoscopy.mp4").value.polyps  # doctest: +SKIP
    5

What the commands are made of is in its rooms, each of which reads the tables of those before it:
``data``, ``tracklets``, ``detect``, ``encoders``, ``learn``, ``associate``, ``evaluate``,
``counting``, ``recipes``, ``report`` and others. Importing ``polyplink`` alone is instant and
imports neither torch nor numpy.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyplink.cli.calibrate import Calibrated as Calibrated, calibrate as calibrate
    from polyplink.cli.convert import convert_data as convert_data
    from polyplink.cli.count import count as count
    from polyplink.cli.detect import detect_polyps as detect_polyps
    from polyplink.cli.doctor import doctor as doctor
    from polyplink.cli.embed import embed_data as embed_data
    from polyplink.cli.evaluate import (
        Evaluated as Evaluated,
        evaluate_weights as evaluate_weights,
    )
    from polyplink.cli.evaluate_detector import evaluate_detector as evaluate_detector
    from polyplink.cli.export import Exported as Exported, export as export
    from polyplink.cli.figures import draw_figures as draw_figures
    from polyplink.cli.hand_off import hand_off_review as hand_off_review
    from polyplink.cli.import_data import import_data as import_data
    from polyplink.cli.index import add_to_index as add_to_index, build_index as build_index
    from polyplink.cli.learn_from import Learned as Learned, learn_from as learn_from
    from polyplink.cli.live import live as live
    from polyplink.cli.merge import merge_data as merge_data
    from polyplink.cli.models import show_models as show_models
    from polyplink.cli.plugins import list_plugins as list_plugins
    from polyplink.cli.prepare import prepare_data as prepare_data
    from polyplink.cli.probe import probe as probe
    from polyplink.cli.recipes import list_recipes as list_recipes, show_recipe as show_recipe
    from polyplink.cli.review import review as review
    from polyplink.cli.run import run as run
    from polyplink.cli.search import search as search
    from polyplink.cli.split import split_data as split_data
    from polyplink.cli.train import Trained as Trained, train as train
    from polyplink.cli.train_detector import train_detector as train_detector
    from polyplink.cli.weights_adapt import adapt_weights as adapt_weights
    from polyplink.cli.weights_add import add_weights as add_weights
    from polyplink.cli.weights_cost import cost_weights as cost_weights
    from polyplink.cli.weights_list import list_weights as list_weights
    from polyplink.cli.weights_save import save_weights_folder as save_weights_folder
    from polyplink.cli.weights_show import show_weights as show_weights
    from polyplink.core.errors import PolyplinkError as PolyplinkError
    from polyplink.core.results import Result as Result
    from polyplink.pipeline.count_data import Counted as Counted
else:  # mypy would take any name for one that __getattr__ returns
    from importlib import import_module

    _OTHERS = {
        "Calibrated": "polyplink.cli.calibrate",
        "Counted": "polyplink.pipeline.count_data",
        "Evaluated": "polyplink.cli.evaluate",
        "Exported": "polyplink.cli.export",
        "Learned": "polyplink.cli.learn_from",
        "PolyplinkError": "polyplink.core.errors",
        "Result": "polyplink.core.results",
        "Trained": "polyplink.cli.train",
    }

    def _modules() -> dict[str, str]:
        """The module that defines each name: verbs, what they return and raise."""
        from polyplink.core.parts import SECTIONS  # noqa: PLC0415 - `import polyplink` is instant

        verbs = (path.split(":") for verbs in SECTIONS.values() for path in verbs.values())
        return {name: module for module, name in verbs} | _OTHERS

    def _function_of(name: str) -> str:
        """Where the function of a command is, if it has another name or is of another package."""
        from polyplink.core.parts import SECTIONS, VERBS  # noqa: PLC0415

        paths = {command: path for verbs in SECTIONS.values() for command, path in verbs.items()}
        paths |= {command: entries[0].value for command, entries in VERBS.installed().items()}
        for command, path in paths.items():
            if name == command.translate({ord(" "): "_", ord("-"): "_"}):
                module, function = path.split(":")
                where = __name__ if module in _modules().values() else module
                return f"; the function of `polyplink {command}` is {where}.{function}"
        return ""

    def __getattr__(name: str) -> object:
        if name == "__all__":  # which `help(polyplink)` reads
            return sorted(_modules())
        module = None if name.startswith("_") else _modules().get(name)
        if module is None:
            hint = "" if name.startswith("_") else _function_of(name)
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({"__version__", *_modules()})


__version__ = "0.1.0"
