"""The `polyplink` command: from its first moment on, Ctrl-C and mistakes are one line."""

import sys

from polyplink.errors import INTERRUPTED, MISTAKE


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        # Imported inside, so that Ctrl-C during the import is no traceback either.
        from polyplink.cli import app  # noqa: PLC0415

        sys.exit(app(standalone_mode=False))
    except KeyboardInterrupt:
        print("polyplink: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        # A mistake on the command line itself; its class is private to the library below.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = " ".join(message().split()).rstrip(".")
        print(f"polyplink: {text}; see `polyplink --help`", file=sys.stderr)
        sys.exit(MISTAKE)


if __name__ == "__main__":
    main()
