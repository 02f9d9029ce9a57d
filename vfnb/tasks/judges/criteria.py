"""The criteria of a rubric and the file that lists them."""

from __future__ import annotations

import functools
import json
import math
import tomllib
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from vfnb.errors import ConfigError
from vfnb.utils.config import BaseConfig, problem_text

__all__ = ["Criterion", "Rubric", "read_rubric"]


class Criterion(BaseConfig):
    """One question of a rubric and its possible answers."""

    name: str = Field(min_length=1)
    """Short name; its metric is `<judge>/<name>`."""
    text: str = Field(min_length=1)
    """What the judge is asked."""
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Its share in the weighted average."""
    choices: list[str] | dict[str, float] = ["no", "yes"]
    """Answers from worst (0.0) to best (1.0), evenly spaced, or a mapping from each answer to its score."""
    drop: list[str] = []
    """Answers that drop the rollout in place of scoring it; they need not be among the choices."""

    @field_validator("drop", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _sound(self) -> Self:
        listed = [*self.choices, *self.drop]
        if any(not answer.strip() for answer in listed):
            raise ValueError("an answer is empty")
        plain = [answer.casefold() for answer in self.choices]
        if len(set(plain)) != len(plain):
            raise ValueError("two choices are the same")
        scores = self.scores
        if isinstance(self.choices, dict):
            wrong = [answer for answer, score in self.choices.items() if not math.isfinite(score)]
            if wrong:
                raise ValueError(f"the score of {wrong[0]!r} is not a finite number")
        if len(scores) < (2 if isinstance(self.choices, list) else 1) or len(self.answers) < 2:
            raise ValueError("a criterion needs at least two answers, and two that score if they are a list")
        return self

    @property
    def scores(self) -> dict[str, float]:
        """The score of each answer that does not drop."""
        dropping = {answer.casefold() for answer in self.drop}
        kept = [answer for answer in self.choices if answer.casefold() not in dropping]
        if isinstance(self.choices, dict):
            return {answer: self.choices[answer] for answer in kept}
        return {answer: index / max(1, len(kept) - 1) for index, answer in enumerate(kept)}

    @property
    def answers(self) -> list[str]:
        """All answers that may be given, those that drop last."""
        return list(dict.fromkeys([*self.scores, *self.drop]))

    @property
    def indicators(self) -> list[str]:
        """Answers that have a metric of their own."""
        return self.answers if isinstance(self.choices, dict) else list(dict.fromkeys(self.drop))


class Rubric(BaseConfig):
    """What a rubric file holds."""

    criteria: list[Criterion] = Field(min_length=1)
    """The criteria, `[[criteria]]` in TOML."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        names = [criterion.name for criterion in self.criteria]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f"two criteria are called {double!r}")
        if not math.fsum(criterion.weight for criterion in self.criteria) > 0:
            raise ValueError("no criterion has a weight above 0")
        return self


@functools.lru_cache(64)
def read_rubric(text: str, path: str) -> Rubric:
    """The rubric of a TOML or JSON file, by its ending.

    Raises:
        ConfigError: it is not what it should be; the message has the file and the key.
    """
    is_json = path.lower().endswith(".json")
    try:
        data = json.loads(text) if is_json else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: this is not valid {'JSON' if is_json else 'TOML'}: {error}") from error
    try:
        return Rubric.model_validate({"criteria": data} if isinstance(data, list) else data)
    except ValidationError as error:
        raise ConfigError(
            "\n".join(f"{path}: {line}" for line in problem_text(Rubric, error).split("\n"))
        ) from None
