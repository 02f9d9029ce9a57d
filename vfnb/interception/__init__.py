"""Catch every model call of a rollout: server, session, in-process transport, pool."""

from typing import TYPE_CHECKING

from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.interception.completion import Completion as Completion
    from vfnb.interception.faults import CallCancelled as CallCancelled
    from vfnb.interception.faults import SessionClosed as SessionClosed
    from vfnb.interception.faults import SessionStopped as SessionStopped
    from vfnb.interception.gate import check_tool as check_tool
    from vfnb.interception.hooks import Edit as Edit
    from vfnb.interception.hooks import Hooks as Hooks
    from vfnb.interception.inprocess import InProcessTransport as InProcessTransport
    from vfnb.interception.journal import Journal as Journal
    from vfnb.interception.limits import Limits as Limits
    from vfnb.interception.markers import Marker as Marker
    from vfnb.interception.pool import Endpoint as Endpoint
    from vfnb.interception.pool import ServerPool as ServerPool
    from vfnb.interception.server import Server as Server
    from vfnb.interception.session import Pending as Pending
    from vfnb.interception.session import Session as Session
    from vfnb.interception.settings import Settings as Settings
else:
    __getattr__ = lazy(
        __name__,
        {
            "completion": "Completion",
            "faults": "CallCancelled SessionClosed SessionStopped",
            "gate": "check_tool",
            "hooks": "Edit Hooks",
            "inprocess": "InProcessTransport",
            "journal": "Journal",
            "limits": "Limits",
            "markers": "Marker",
            "pool": "Endpoint ServerPool",
            "server": "Server",
            "session": "Pending Session",
            "settings": "Settings",
        },
    )

__all__ = [
    "CallCancelled",
    "Completion",
    "Edit",
    "Endpoint",
    "Hooks",
    "InProcessTransport",
    "Journal",
    "Limits",
    "Marker",
    "Pending",
    "Server",
    "ServerPool",
    "Session",
    "SessionClosed",
    "SessionStopped",
    "Settings",
    "check_tool",
]
