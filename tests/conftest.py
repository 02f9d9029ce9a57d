"""Makes `tests/support` importable."""

import socket
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def program_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of programs for all tests that install tiny ones: the Node in it is 200 MB."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture
def programs(program_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has programs installed apart from those of this machine; the folder that they are in."""
    monkeypatch.setenv("VFNB_CACHE", str(program_cache))
    return program_cache / "programs"


@pytest.fixture
def unused_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
