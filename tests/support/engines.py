"""What a test does when the real program it needs is not on this machine."""

from __future__ import annotations

import os
import shutil

import pytest

__all__ = ["chromium", "need"]


def need(condition: object, what: str, fix: str) -> None:
    """Skip the test where `what` is missing; on CI, where everything is installed, fail it.

    Args:
        condition: true when the engine is there.
        what: the engine, for the message.
        fix: the command that installs it.
    """
    if condition:
        return
    message = f"{what} is not here; install it with: {fix}"
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def chromium() -> str:
    """Path of a Chromium; skips or fails the test without one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    need(found, "Chromium", "apt-get install --no-install-recommends chromium fonts-dejavu-core")
    assert found is not None
    return found
