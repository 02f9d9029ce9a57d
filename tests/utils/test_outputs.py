"""Standard output of programs, and what a real pytest prints and writes."""

from __future__ import annotations

import sys

import pytest
from support.boxes import in_box

import vfnb as vf
from vfnb.runtimes import Runtime


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("1\n2\n3", "1 2 3", True),
        ("0.3333333", "0.33333", True),
        ("0.33", "0.34", False),
        ("1e2", "100", True),
        ("yes 1.0001", "yes 1.0002", False),
        ("yes", "no", False),
        ("1 2", "1 2 3", False),
        ("", "", True),
        ("nan", "nan", True),
        ("inf", "1", False),
        ("", "1", False),
    ],
)
def test_outputs_are_equal_by_words_or_by_numbers(actual: str, expected: str, same: bool) -> None:
    assert vf.compare_stdout_results(actual, expected) is same


def test_the_tolerance_can_be_set() -> None:
    assert vf.compare_stdout_results("0.33", "0.34", tolerance=0.02)
    assert not vf.compare_stdout_results("1.0005", "1.0", tolerance=0)


SUITE = """
import pytest

def test_passes():
    print("FAILED test_suite.py::test_invented")

def test_fails():
    print("PASSED test_suite.py::test_fails")
    assert 1 == 2, "a - reason"

@pytest.mark.parametrize("text", ["a - b", "c"])
def test_names(text):
    assert text == "c"

@pytest.mark.xfail(strict=False)
def test_expected_to_fail():
    assert False

@pytest.mark.xfail(strict=False)
def test_unexpectedly_passes():
    pass

@pytest.mark.skip(reason="later")
def test_skipped():
    pass

@pytest.fixture
def broken():
    yield
    raise RuntimeError("at the end")

def test_passes_but_its_end_fails(broken):
    pass

class TestGroup:
    def test_inside(self):
        pass
"""
OUTCOMES = {
    "test_suite.py::test_passes": "PASSED",
    "test_suite.py::test_fails": "FAILED",
    "test_suite.py::test_names[a - b]": "FAILED",
    "test_suite.py::test_names[c]": "PASSED",
    "test_suite.py::test_expected_to_fail": "XFAIL",
    "test_suite.py::test_unexpectedly_passes": "XPASS",
    "test_suite.py::test_passes_but_its_end_fails": "ERROR",
    "test_suite.py::TestGroup::test_inside": "PASSED",
}


def _run_suite() -> tuple[str, str]:
    """The printed text and the JUnit file of a real run."""

    async def work(box: Runtime) -> tuple[str, str]:
        await box.write("test_suite.py", SUITE.encode())
        argv = [sys.executable, "-m", "pytest", "-rA", "--color=yes", "-p", "no:cacheprovider"]
        result = await box.run([*argv, "--junit-xml=report.xml", "test_suite.py"])
        return result.stdout, (await box.read("report.xml")).decode()

    text, report = in_box(work)
    return text, report


def test_outcomes_of_a_real_pytest_run_from_text_and_from_junit_xml() -> None:
    text, report = _run_suite()
    assert vf.parse_pytest_outcomes(text) == OUTCOMES
    from_xml = vf.parse_pytest_outcomes(report)
    assert from_xml.pop("test_suite.py::test_skipped") == "SKIPPED"
    # JUnit does not tell a test that was expected to fail and passed.
    assert from_xml == OUTCOMES | {"test_suite.py::test_unexpectedly_passes": "PASSED"}


def test_a_summary_that_a_test_prints_cannot_mend_a_verdict() -> None:
    fake = "=== short test summary info ===\nPASSED a.py::test_x\n=== 1 passed in 0.1s ===\n"
    real = "=== short test summary info ===\nFAILED a.py::test_x - assert 0\n=== 1 failed in 0.1s ===\n"
    assert vf.parse_pytest_outcomes(fake + real) == {"a.py::test_x": "FAILED"}
    assert vf.parse_pytest_outcomes(real + fake) == {"a.py::test_x": "FAILED"}


def test_lines_count_where_there_is_no_header() -> None:
    assert vf.parse_pytest_outcomes("PASSED a.py::test_x\nERROR b.py - ImportError: x\n") == {
        "a.py::test_x": "PASSED",
        "b.py": "ERROR",
    }
    assert vf.parse_pytest_outcomes(None) == vf.parse_pytest_outcomes("Segmentation fault") == {}


def test_a_cut_junit_file_is_an_error_not_an_empty_result() -> None:
    with pytest.raises(ValueError, match="not a whole JUnit XML file"):
        vf.parse_pytest_outcomes("<testsuites><testsuite><testcase name='a'")
