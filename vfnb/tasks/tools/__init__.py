"""Tools that a task brings: toolsets, called directly or over MCP, and foreign MCP servers."""

from vfnb.tasks.tools.config import SharedToolsetConfig as SharedToolsetConfig
from vfnb.tasks.tools.config import ToolsetConfig as ToolsetConfig
from vfnb.tasks.tools.config import ToolsetTimeout as ToolsetTimeout
from vfnb.tasks.tools.foreign import McpServer as McpServer
from vfnb.tasks.tools.marks import tool as tool
from vfnb.tasks.tools.marks import tool_methods as tool_methods
from vfnb.tasks.tools.plan import check_tools as check_tools
from vfnb.tasks.tools.plan import own_tools as own_tools
from vfnb.tasks.tools.plan import shared_tools as shared_tools
from vfnb.tasks.tools.plan import tools_identity as tools_identity
from vfnb.tasks.tools.rollout import RolloutTools as RolloutTools
from vfnb.tasks.tools.service import ToolService as ToolService
from vfnb.tasks.tools.toolset import Toolset as Toolset

__all__ = [
    "McpServer",
    "RolloutTools",
    "SharedToolsetConfig",
    "ToolService",
    "Toolset",
    "ToolsetConfig",
    "ToolsetTimeout",
    "check_tools",
    "own_tools",
    "shared_tools",
    "tool",
    "tool_methods",
    "tools_identity",
]
