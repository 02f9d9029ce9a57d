"""Decision endpoints: typed questions about a state in, a probability for every answer out.

The System One format. POSTed: `{"model", "state", "questions": {id: {"type": "score", "instructions", "criteria":
[level, ...]}}}`. Answered: `{"answers": {id: {"type", "score", "probabilities": {"0": p, ...}}}, "usage": {...}}`.
Levels count from 0, `score` is the probability-weighted one. Some wrap it: `{"result": ..., "success": true}`.
Described at https://docs.primeintellect.ai/api-reference/inference-evaluations (Clef) and, with probabilities, at
https://docs.fireworks.ai/api-reference/post-systemone.
"""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar

import msgspec

from vfnb.dialects import Dialect
from vfnb.types import AssistantMessage, Messages, Response, Tool, Usage, UserMessage

__all__ = ["QUESTION", "Decisions", "level_of", "request_body"]

QUESTION = "grade"
_TOLERANCE = 0.05  # of a sum of rounded probabilities


class Decisions(Dialect[dict[str, Any], dict[str, Any]]):
    """The format as a dialect, for calls to an endpoint whose full URL is the client's base."""

    name: ClassVar[str] = "decisions"

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        asked = {"state": body.get("state"), "questions": body.get("questions")}
        return [UserMessage(content=json.dumps(asked, ensure_ascii=False))], None

    def parse_response(self, resp: dict[str, Any]) -> Response:
        if resp.get("success") is False:
            raise ValueError(f"the endpoint refused: {str(resp.get('errors'))[:300]}")
        body = resp.get("result", resp)
        if not isinstance(body.get("answers"), dict):
            raise ValueError("it has no answers")
        text = json.dumps(body["answers"], ensure_ascii=False)
        return Response(
            message=AssistantMessage(content=text),
            usage=_usage(body.get("usage")),
            model=str(body.get("model") or ""),
        )

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        answers = json.loads(response.text)
        return msgspec.json.encode({"model": model, "answers": answers})

    def path(self, model: str, stream: bool) -> str:
        return ""


def _usage(data: Any) -> Usage | None:
    if not isinstance(data, dict):
        return None
    prompt = data.get("input_tokens", data.get("inputTokens"))
    completion = data.get("output_tokens", data.get("outputTokens"))
    cost = data.get("cost")
    return Usage(
        prompt_tokens=prompt if isinstance(prompt, int) else 0,
        completion_tokens=completion if isinstance(completion, int) else 0,
        cost=float(cost) if isinstance(cost, int | float) else None,
    )


def request_body(model: str, state: dict[str, Any], instructions: str, levels: list[str]) -> dict[str, Any]:
    """The request that asks one question with ordered levels, the lowest first."""
    question = {"type": "score", "instructions": instructions, "criteria": levels}
    return {"model": model, "state": state, "questions": {QUESTION: question}}


def level_of(text: str, count: int) -> tuple[float, list[float] | None]:
    """The probability-weighted level from 0 to `count - 1`, and the probabilities if they were given.

    Raises:
        ValueError: the answer is not one of that format, or its numbers contradict it.
    """
    try:
        answer = json.loads(text)[QUESTION]
        listed = answer.get("probabilities")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no answer to the question {QUESTION!r}") from error
    if isinstance(listed, dict):
        listed = [listed.get(str(level)) for level in range(count)] if len(listed) == count else None
    if listed is not None:
        if not isinstance(listed, list) or len(listed) != count or not all(map(_is_share, listed)):
            raise ValueError(f"its probabilities are not {count} numbers from 0 to 1")
        total = math.fsum(listed)
        if abs(total - 1) > _TOLERANCE:
            raise ValueError(f"its probabilities add up to {total:.3g}")
        shares = [share / total for share in listed]
        return math.fsum(level * share for level, share in enumerate(shares)), shares
    level = answer.get("score")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 <= level <= count - 1:
        raise ValueError(f"its score {level!r} is not a number from 0 to {count - 1}")
    return float(level), None


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
