"""The verb `weights list`: all named encoders."""

from polyplink.cli.verb import verb
from polyplink.core.errors import PolyplinkError
from polyplink.core.results import Result

SHIPPED = "this package"  # the source of shipped weights


@verb
def list_weights() -> Result[list[dict[str, str]]]:
    """List the shipped encoder, known encoders and added weights.

    Returns:
        name, title, licence, path ("" if the weights are not on this machine) and source of each.

    Example:
        >>> [row["source"] for row in list_weights().value if row["name"] == "encoder-v1"]
        ['this package']
    """
    from polyplink.encoders.catalogue import FOUNDATION
    from polyplink.encoders.weights import added_paths, read_record
    from polyplink.models.shipped import models

    columns = ("name", "title", "licence", "path", "source")
    shipped = [model for model in models() if model.kind == "encoder"]
    listed = [
        (model.name, model.title, model.licence, str(model.path), SHIPPED) for model in shipped
    ]
    listed += [(s.name, s.title, s.licence, "", s.source) for s in FOUNDATION.values()]
    for path in added_paths():
        try:
            origin = {"title": "trained here"} | dict(read_record(path).origin)
        except PolyplinkError:  # a file that `weights add` did not write
            origin = {}
        title, licence = origin.get("title", "no encoder"), origin.get("licence", "unknown")
        name = path.name.removesuffix(".safetensors")
        listed.append((name, str(title), str(licence), str(path), str(origin.get("source", ""))))
    rows = {row[0]: dict(zip(columns, row, strict=True)) for row in listed}
    printed = [
        f"{row['name']:13} {row['title']:19} {row['licence']}\n{'':14}"
        + (row["path"] or f"not here; from {row['source']}")
        for row in rows.values()
    ]
    return Result(list(rows.values()), printed=printed)
