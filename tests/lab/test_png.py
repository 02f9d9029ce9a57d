"""A figure as .png: what is said where kaleido or a browser is missing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SAVE = """
{before}
from vfnb.errors import MissingExtra
from vfnb.trace import Trace
try:
    Trace().plot().save("x.png")
except MissingExtra as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("import sys; sys.modules['kaleido'] = None", "pip install 'vfnb[png]'; .svg needs neither"),
        ("import os; os.environ['BROWSER_PATH'] = '/nowhere/chrome'", "none was found: install one"),
    ],
)
def test_what_is_missing_is_named_with_its_remedy(before: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAVE.format(before=before)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PATH": ""},
        timeout=50,
    )
    assert said in done.stdout, done.stderr
