"""The performance table.

    python -m benchmarks [--rows 1,5] [--runs 3] [--no-peer] [--json FILE]

Each row runs its sides in turn (floor, ours, peer), a warm-up first, and shows medians. The peer is left out where
its environment has not been created (`make bench-peer`). Exit status 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from benchmarks.measure import Figures, Metric, Row, measure
from benchmarks.peer import setup
from benchmarks.rows import ROWS

HEAD = f"{'':50} {'ours':>10} {'floor':>10} {'peer':>10} {'x floor':>8} {'x peer':>8} {'target':>10}"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratio(above: float | None, below: float | None) -> str:
    return number(above / below) if above is not None and below else "-"


def line(metric: Metric, sides: dict[str, Figures]) -> tuple[str, bool]:
    """One line of the table, and whether its target is met."""
    ours, floor, peer = (sides.get(name, {}).get(metric.key) for name in ("ours", "floor", "peer"))
    # "x peer" says how many times better ours is.
    better = ratio(ours, peer) if metric.more_is_better else ratio(peer, ours)
    met = metric.met(ours) if ours is not None else None
    mark = {True: "", False: " MISSED", None: ""}[met]
    limit = (
        "" if metric.target is None else (">= " if metric.more_is_better else "<= ") + number(metric.target)
    )
    name = f"  {metric.label}" + (f" [{metric.unit}]" if metric.unit else "")
    figures = f"{number(ours):>10} {number(floor):>10} {number(peer):>10} {ratio(ours, floor):>8} {better:>8}"
    return f"{name:50} {figures} {limit:>10}{mark}", met is not False


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the performance table."
    )
    parser.add_argument(
        "--rows", default="", help="numbers, also as 5/responses, with commas; all by default"
    )
    parser.add_argument("--runs", type=int, default=0, help="runs of each side (default: at least 3)")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-warm-up", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    args = parser.parse_args(argv)
    wanted = [name for name in args.rows.split(",") if name]
    rows = [row for row in ROWS if not wanted or any(name in _numbers(row) for name in wanted)]
    peer = setup.present() and not args.no_peer
    if not peer:
        print("Without the peer; `make bench-peer` creates its environment.")
    print(HEAD)
    results: dict[str, dict[str, Figures]] = {}
    missed = 0
    for row in rows:
        start = time.perf_counter()
        result = measure(row, peer, args.runs or row.runs, not args.no_warm_up)
        results[row.number] = result.figures
        print(f"{row.number}. {row.title} ({time.perf_counter() - start:.0f} s)")
        for metric in row.metrics if "ours" in result.figures else []:
            text, met = line(metric, result.figures)
            missed += not met
            print(text, flush=True)
        for side, reason in result.failures.items():
            missed += side == "ours"
            print(f"  {side} failed: {reason.strip().splitlines()[-1]}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    print(f"{missed} targets missed" if missed else "all targets met")
    return 1 if missed else 0


def _numbers(row: Row) -> set[str]:
    """`10-12` -> 10, 11, 12; `5/responses` -> itself, 5, responses; a word is itself."""
    if not row.number[0].isdigit():
        return {row.number}
    numbers, _, dialect = row.number.partition("/")
    first, _, last = numbers.partition("-")
    return {row.number, dialect} | {str(number) for number in range(int(first), int(last or first) + 1)}


if __name__ == "__main__":
    sys.exit(main())
