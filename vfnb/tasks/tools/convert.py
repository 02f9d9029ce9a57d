"""Results and tools between our types and those of the `mcp` SDK. Needs the SDK."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vfnb.tasks.tools.results import ToolResult, audio, image, joined
from vfnb.tasks.tools.sdk import types
from vfnb.types import AudioContentPart, ContentPart, ImageUrlContentPart, TextContentPart, Tool

if TYPE_CHECKING:
    import mcp_types

__all__ = ["from_mcp", "part_from_mcp", "to_mcp", "tool_from_mcp", "tool_to_mcp"]


def to_mcp(result: ToolResult, meta: dict[str, Any] | None = None) -> mcp_types.CallToolResult:
    """A result for the wire."""
    content = [_block(part) for part in result.parts]
    wire: mcp_types.CallToolResult = types().CallToolResult(
        content=content, is_error=result.is_error, _meta=meta
    )
    return wire


def from_mcp(result: mcp_types.CallToolResult) -> ToolResult:
    """A result from the wire. Structured content counts only where there is no other: servers repeat it as text."""
    parts = [part_from_mcp(block) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [TextContentPart(text=json.dumps(result.structured_content, ensure_ascii=False))]
    return ToolResult(joined(parts), is_error=bool(result.is_error))


def part_from_mcp(block: Any) -> ContentPart:
    """One content block, or one of the SDK's `Image` and `Audio` helpers, as a content part."""
    if hasattr(block, "to_image_content"):
        block = block.to_image_content()
    elif hasattr(block, "to_audio_content"):
        block = block.to_audio_content()
    kind = getattr(block, "type", None)
    if kind == "text":
        return TextContentPart(text=block.text)
    if kind == "image":
        return image(block.data, block.mime_type)
    if kind == "audio":
        return audio(block.data, block.mime_type)
    if kind == "resource":
        text = getattr(block.resource, "text", None)
        return TextContentPart(text=text if text is not None else f"[binary resource {block.resource.uri}]")
    if kind == "resource_link":
        return TextContentPart(text=f"[resource {block.uri}]")
    return TextContentPart(text=block.model_dump_json(by_alias=True, exclude_none=True))


def tool_from_mcp(tool: mcp_types.Tool) -> Tool:
    """A server's tool as the model is told of it."""
    return Tool(name=tool.name, description=tool.description or "", parameters=dict(tool.input_schema))


def tool_to_mcp(tool: Tool) -> mcp_types.Tool:
    """A tool as a server lists it."""
    wire: mcp_types.Tool = types().Tool(
        name=tool.name, description=tool.description or None, input_schema=tool.parameters
    )
    return wire


def _block(part: ContentPart) -> Any:
    wire = types()
    if isinstance(part, ImageUrlContentPart):
        url = part.image_url.url
        if url.startswith("data:") and ";base64," in url:
            head, _, data = url.partition(";base64,")
            return wire.ImageContent(data=data, mime_type=head.removeprefix("data:"))
        return wire.ResourceLink(uri=url, name="image")
    if isinstance(part, AudioContentPart):
        return wire.AudioContent(data=part.input_audio.data, mime_type=f"audio/{part.input_audio.format}")
    return wire.TextContent(text=getattr(part, "text", ""))
