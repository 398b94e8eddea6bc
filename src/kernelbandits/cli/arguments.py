"""Command-line options that several commands share."""

from __future__ import annotations

import argparse
from typing import NamedTuple

__all__ = ["Size", "add_size_options", "size_of"]


class Size(NamedTuple):
    """Rounds per run, and seeds."""

    rounds: int
    seeds: int


def add_size_options(parser: argparse.ArgumentParser, quick: Size) -> None:
    """--rounds, --seeds and --quick."""
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds per run")
    parser.add_argument("--seeds", type=int, metavar="N", help="runs per policy, seeds 0 to N-1")
    parser.add_argument(
        "--quick", action="store_true", help=f"{quick.rounds} rounds and {quick.seeds} seeds, unless given"
    )


def size_of(arguments: argparse.Namespace, *, usual: Size, quick: Size) -> Size:
    """Size given by the options; `usual` by default."""
    size = quick if arguments.quick else usual
    rounds = size.rounds if arguments.rounds is None else arguments.rounds
    return Size(rounds, size.seeds if arguments.seeds is None else arguments.seeds)
