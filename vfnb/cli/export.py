"""`vfnb export`: a finished run in the form of another program."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from typing import NoReturn

from vfnb.errors import ConfigError

__all__ = ["run"]


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def run(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    from vfnb.runs import load

    asked = vars(_parser().parse_args(list(words)))
    opened = load(asked.pop("run"))
    report = opened.export(asked.pop("format"), asked.pop("dir"), **asked)
    print(report)
    if report.refused:
        print(f"vfnb export: {len(report.refused)} records were refused, see manifest.json", file=sys.stderr)
    return 0


def _parser() -> ArgumentParser:
    from vfnb.exchange import FORMATS

    parser = _Parser(
        prog="vfnb export",
        description="Write a run (also an imported one) in the form of another program, as a whole or not at all.",
        argument_default=SUPPRESS,
    )
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("format", help=", ".join(FORMATS))
    parser.add_argument("dir", help="the folder to be made")
    parser.add_argument("--env", help="name of the source in prime-rl's configuration")
    parser.add_argument("--advantage", help="grpo (default) or leave_one_out")
    parser.add_argument("--agents", nargs="+", help="roles under training; all by default")
    parser.add_argument("--seq-len", type=int, help="tokens of a micro-batch (8192)")
    parser.add_argument("--ranks", type=int, help="data-parallel size of the trainer (1)")
    parser.add_argument("--pad-to", type=int, help="context-parallel size of the trainer (1)")
    parser.add_argument("--step", type=int, help="training step of the micro-batches (1)")
    parser.add_argument("--temperature", type=float, help="of calls that have none on record")
    parser.add_argument("--min-reward", type=float, help="SFT rows only of traces with at least this reward")
    parser.add_argument("--weights", choices=["rollout"], help="every rollout counts as much as the others")
    for name, text in (
        ("--skip-invalid", "leave out what contradicts itself or cannot be carried"),
        ("--overwrite", "replace an earlier export"),
        ("--partial", "also of a run that has not finished"),
    ):
        parser.add_argument(name, action="store_true", help=text)
    return parser
