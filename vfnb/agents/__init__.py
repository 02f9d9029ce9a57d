"""Agents: harnesses and the life cycle of a rollout."""

from typing import TYPE_CHECKING

from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.agents.agent import Agent as Agent
    from vfnb.agents.agent import make_agent as make_agent
    from vfnb.agents.base import Finished as Finished
    from vfnb.agents.base import Harness as Harness
    from vfnb.agents.base import HarnessConfig as HarnessConfig
    from vfnb.agents.catalog import harnesses as harnesses
    from vfnb.agents.function import FunctionHarness as FunctionHarness
    from vfnb.agents.function import harness as harness
    from vfnb.agents.journal import Journal as Journal
    from vfnb.agents.journal import MemoryJournal as MemoryJournal
    from vfnb.agents.limits import Timeouts as Timeouts
    from vfnb.agents.loading import find_harness as find_harness
    from vfnb.agents.loading import harness_names as harness_names
    from vfnb.agents.loading import resolve_harness as resolve_harness
    from vfnb.agents.rollout import Ids as Ids
    from vfnb.agents.rollout import Rollout as Rollout
    from vfnb.agents.scoring import ScoringConfig as ScoringConfig
    from vfnb.agents.session import HarnessSession as HarnessSession
else:
    __getattr__ = lazy(
        __name__,
        {
            "agent": "Agent make_agent",
            "base": "Finished Harness HarnessConfig",
            "catalog": "harnesses",
            "function": "FunctionHarness harness",
            "journal": "Journal MemoryJournal",
            "limits": "Timeouts",
            "loading": "find_harness harness_names resolve_harness",
            "rollout": "Ids Rollout",
            "scoring": "ScoringConfig",
            "session": "HarnessSession",
        },
    )

__all__ = [
    "Agent",
    "Finished",
    "FunctionHarness",
    "Harness",
    "HarnessConfig",
    "HarnessSession",
    "Ids",
    "Journal",
    "MemoryJournal",
    "Rollout",
    "ScoringConfig",
    "Timeouts",
    "find_harness",
    "harness",
    "harness_names",
    "harnesses",
    "make_agent",
    "resolve_harness",
]
