"""Sound Gemini requests, as different from each other as they can be."""

from __future__ import annotations

from typing import Any

__all__ = ["BODIES"]

ADD = {
    "name": "add",
    "description": "adds",
    "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": True}}},
}
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
CALL = {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
RESULT = {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3"}, "parts": [IMAGE]}}

BODIES: list[dict[str, Any]] = [
    {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    {"contents": [{"parts": [{"text": "look"}, IMAGE, {"fileData": {"fileUri": "https://x/y.pdf"}}]}]},
    {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "add"}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "so"}, CALL]},
            {"role": "user", "parts": [RESULT, {"text": "and?"}]},
            {"role": "model", "parts": [{"text": "3"}]},
            {"role": "model", "parts": [{"text": "!", "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}}]},
        ],
        "tools": [{"functionDeclarations": [ADD]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}},
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 100,
            "stopSequences": ["x"],
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT"},
            "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
            "candidateCount": 1,
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    },
    {
        "system_instruction": {"parts": [{"text": "be brief"}, {"text": "very"}]},
        "contents": [{"parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}]}],
        "generation_config": {"top_k": 3},
        "tool_config": {"function_calling_config": {"mode": "none"}},
    },
]
