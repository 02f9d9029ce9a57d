"""Reading what programs under test print: plain output and pytest's verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from xml.etree import ElementTree

__all__ = ["PYTEST_OUTCOMES", "compare_stdout_results", "parse_pytest_outcomes"]

PYTEST_OUTCOMES = ("PASSED", "SKIPPED", "XFAIL", "XPASS", "FAILED", "ERROR")
"""From best to worst; of two verdicts on one test the worse one counts."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_HEADER = re.compile(r"=+ short test summary info =+")
_RULE = re.compile(r"=+ .* =+|=+")


def compare_stdout_results(actual: str, expected: str, *, tolerance: float = 1e-3) -> bool:
    """Whether a program printed what it should: the same words whatever the white space, or the same numbers.

    Args:
        actual: what it printed.
        expected: what it should.
        tolerance: allowed difference of two numbers; it applies if both outputs are numbers and nothing else.
    """
    given, wanted = actual.split(), expected.split()
    if given == wanted:
        return True
    if len(given) != len(wanted):
        return False
    try:
        pairs = [(Decimal(one), Decimal(other)) for one, other in zip(given, wanted, strict=True)]
    except InvalidOperation:
        return False
    limit = Decimal(str(tolerance))
    return all(one.is_finite() and other.is_finite() and abs(one - other) <= limit for one, other in pairs)


def parse_pytest_outcomes(output: str | None) -> dict[str, str]:
    """Test ids and outcomes (`PYTEST_OUTCOMES`) of a pytest run.

    Reads the text of `pytest -rA`, or the file of `--junit-xml`. In text only the summary counts, wherever there is
    one, so that what tests print is no verdict; skipped tests are in it without an id and are left out.
    In XML a test's id is made of its file or its dotted class name, in which the part from the first capital letter
    on is the class.

    Raises:
        ValueError: it begins like XML and is not a whole JUnit file.
    """
    text = output or ""
    found: dict[str, str] = {}
    for test, outcome in _junit(text) if text.lstrip().startswith("<") else _summary(text):
        worst = max(found.get(test, outcome), outcome, key=PYTEST_OUTCOMES.index)
        found[test] = worst
    return found


def _summary(text: str) -> Iterator[tuple[str, str]]:
    lines = [line.strip() for line in _ANSI.sub("", text).splitlines()]
    inside = everywhere = not any(_HEADER.fullmatch(line) for line in lines)
    for line in lines:
        if _RULE.fullmatch(line):
            inside = everywhere or _HEADER.fullmatch(line) is not None
            continue
        outcome, _, rest = line.partition(" ")
        rest = rest.strip()
        if inside and outcome in PYTEST_OUTCOMES and rest and not rest.startswith("["):
            yield (rest if outcome == "PASSED" else _without_reason(rest)), outcome


def _without_reason(rest: str) -> str:
    """The id in `id - reason`; a parameter in brackets may contain ` - ` itself."""
    parts = rest.split(" - ")
    for end in range(1, len(parts)):
        test = " - ".join(parts[:end])
        if test.count("[") == test.count("]"):
            return test
    return rest


def _junit(text: str) -> Iterator[tuple[str, str]]:
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError as error:
        raise ValueError(f"this is not a whole JUnit XML file: {error}") from error
    for case in root.iter("testcase"):
        tags = {child.tag: child for child in case}
        if "error" in tags:
            outcome = "ERROR"
        elif "failure" in tags:
            outcome = "FAILED"
        elif "skipped" in tags:
            outcome = "XFAIL" if tags["skipped"].get("type") == "pytest.xfail" else "SKIPPED"
        else:
            outcome = "PASSED"
        yield _node_id(case.get("classname") or "", case.get("name") or "", case.get("file")), outcome


def _node_id(classname: str, name: str, file: str | None) -> str:
    parts = classname.split(".") if classname else []
    split = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts))
    if file is None:
        file = "/".join(parts[:split]) + ".py" if parts[:split] else ""
    return "::".join(part for part in [file, *parts[split:], name] if part)
