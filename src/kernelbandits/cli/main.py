"""Finds the command, runs it, and turns errors into one line and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from kernelbandits import __version__
from kernelbandits._text import HANDLER
from kernelbandits.cli import compare, demo, report, run, service
from kernelbandits.errors import KernelBanditError

__all__ = ["main"]

COMMANDS = (demo, compare, run, report, service)

BAD_ARGUMENTS, INTERRUPTED, PIPE_CLOSED = 2, 130, 1  # 130 as a shell reports the signal, 1 as rich does

EXAMPLES = """\
examples:
  kernelbandits demo                 a table here, figures and a page in ./demo
  kernelbandits demo --quick         fewer rounds, a few seconds
  kernelbandits demo --json          results as JSON
  kernelbandits compare              every policy on six problems
  kernelbandits run study.toml       a study of your own; interrupted runs continue
  kernelbandits report results       figures and tables of a study
  kernelbandits serve                a decision service over HTTP on this machine
  kernelbandits COMMAND --help       options and examples of one command
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0, 2 for what the user can fix, 130 when interrupted."""
    _replace_characters()
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help()
        return 0
    try:
        given.run(given)
        sys.stdout.flush()
    except KernelBanditError as error:
        print(f"kernelbandits: {' '.join(str(error).split())}", file=sys.stderr)
        return BAD_ARGUMENTS
    except KeyboardInterrupt:
        print("kernelbandits: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed it, as in `kernelbandits demo | head -3`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:  # a full disk, a folder that went away
        named = f"{error.filename}: " if error.filename else ""
        print(f"kernelbandits: {named}{error.strerror or error}.", file=sys.stderr)
        return BAD_ARGUMENTS
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kernelbandits",
        description="Kernelized contextual bandits: choose among actions never tried,\n"
        "by their similarity to actions that were.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kernelbandits {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        command.add_to(commands)
    return parser


def _replace_characters() -> None:
    """Replace characters that the output cannot encode: ± by +-, unknown ones by a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=HANDLER)
