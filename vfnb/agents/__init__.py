"""Agents: harnesses and the life cycle of a rollout."""

from vfnb.agents.agent import Agent, make_agent
from vfnb.agents.base import Harness, HarnessConfig
from vfnb.agents.function import FunctionHarness, harness
from vfnb.agents.journal import Journal, MemoryJournal
from vfnb.agents.limits import Timeouts
from vfnb.agents.loading import harness_names, resolve_harness
from vfnb.agents.rollout import Ids, Rollout
from vfnb.agents.session import HarnessSession

__all__ = [
    "Agent",
    "FunctionHarness",
    "Harness",
    "HarnessConfig",
    "HarnessSession",
    "Ids",
    "Journal",
    "MemoryJournal",
    "Rollout",
    "Timeouts",
    "harness",
    "harness_names",
    "make_agent",
    "resolve_harness",
]
