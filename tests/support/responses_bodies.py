"""Sound Responses requests of many kinds."""

from __future__ import annotations

from typing import Any

__all__ = ["BODIES", "TURN"]

PNG = "data:image/png;base64,iVBORw0KGgo="
TURN: list[dict[str, Any]] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "I think. "}],
        "content": None,
        "encrypted_content": "ENC1",
    },
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "  Running.\n", "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "status": "completed",
        "call_id": "call_1",
        "name": "add",
        "namespace": "mcp__calc",
        "arguments": '{"a":  1, "b": 2 }',
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "3"},
]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "name": "shell",
        "description": "Runs a command",
        "strict": False,
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
    {
        "type": "namespace",
        "name": "mcp__calc",
        "description": "Calculator",
        "tools": [{"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}],
    },
    {
        "type": "custom",
        "name": "apply_patch",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
    },
    {"type": "web_search", "external_web_access": True},
]
HOSTED: list[dict[str, Any]] = [
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "x",
            "sources": [{"type": "url", "url": "https://example.com"}],
        },
    },
    {
        "type": "file_search_call",
        "id": "fs_1",
        "queries": ["q"],
        "results": [{"file_id": "f", "text": "found"}],
    },
    {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
    {"type": "mcp_call", "id": "mcp_1", "name": "t", "arguments": "{}", "server_label": "s", "output": "o"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "ENC2"},
]
BODIES: list[dict[str, Any]] = [
    {"model": "m", "input": "hi"},
    {"model": "m", "instructions": "Be good.", "input": [{"role": "user", "content": "hi"}], "stream": True},
    {
        "model": "m",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "tools": TOOLS,
        "client_metadata": {"thread_id": "t"},
        "input": [
            {
                "type": "message",
                "role": "developer",
                "content": [{"type": "input_text", "text": "You code."}],
            },
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Add."}]},
            *TURN,
        ],
    },
    {
        "model": "m",
        "max_output_tokens": 100,
        "temperature": 0,
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
        },
        "tool_choice": {"type": "function", "name": "shell"},
        "tools": TOOLS[:1],
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "See."},
                    {"type": "input_image", "image_url": PNG, "detail": "low"},
                    {"type": "input_image", "file_id": "file_1"},
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,AA==",
                    },
                    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                ],
            }
        ],
    },
    {
        "model": "m",
        "input": [
            {"role": "user", "content": "go"},
            *HOSTED,
            {"role": "assistant", "content": "Found."},
            {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"},
            {
                "type": "custom_tool_call_output",
                "call_id": "c2",
                "output": [
                    {"type": "input_text", "text": "ok"},
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                ],
            },
            {
                "type": "local_shell_call",
                "id": "ls_1",
                "call_id": "c3",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            },
            {"type": "local_shell_call_output", "id": "o1", "call_id": "c3", "output": "a b"},
            {"type": "computer_call", "id": "cc", "call_id": "c4", "action": {"type": "screenshot"}},
            {
                "type": "computer_call_output",
                "call_id": "c4",
                "output": {"type": "computer_screenshot", "image_url": PNG},
            },
            {"type": "mcp_approval_request", "id": "ar", "name": "t", "arguments": "{}", "server_label": "s"},
            {"type": "mcp_approval_response", "approval_request_id": "ar", "approve": True},
            {
                "type": "message",
                "id": "msg_2",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "refusal", "refusal": "No."}],
            },
            {"role": "user", "content": "why"},
        ],
    },
]
