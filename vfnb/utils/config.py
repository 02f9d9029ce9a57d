"""The base of every settings model: unknown keys are errors, and errors name the key path and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from vfnb.errors import ConfigError, VfnbError

__all__ = [
    "OBJECT",
    "BaseConfig",
    "Checked",
    "Speller",
    "all_keys",
    "build",
    "hidden",
    "models_in",
    "nearest",
    "problem_text",
]

M = TypeVar("M", bound=BaseModel)

OBJECT = "python:"
"""Starts the id of something that was an object of a notebook or a script: no file can name it."""


class Checked(BaseModel):
    """A pydantic model whose constructor raises one of our errors, with key path and nearest match."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    error_type: ClassVar[type[VfnbError]] = ConfigError

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise type(self).error_type(problem_text(type(self), error)) from None

    # Without this mark pydantic would call this for nested models too, and the outer key path would be lost.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class BaseConfig(Checked):
    """Settings. Unknown keys raise `ConfigError`; document each field by a docstring under it."""

    SPARSE: ClassVar[bool] = False
    """Whether a field that is not set differs from one set to its default: only set ones are saved."""

    def explicit(self) -> dict[str, Any]:
        """Only what was set, not what is default, nested; values as JSON types."""
        return self.model_dump(mode="json", exclude_unset=True)

    def updated(self, **overrides: Any) -> Self:
        """A copy with some fields replaced and checked; what was explicit stays explicit.

        Raises:
            ConfigError: an override is unknown or has a wrong value.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **overrides})


def build(model: type[M], data: Mapping[str, Any] | M | None = None, *, path: str = "") -> M:
    """A config from a mapping, with `path` (for example `env.taskset`) in front of the keys that errors name.

    Raises:
        ConfigError: an unknown key, a wrong value or a missing one.
    """
    if isinstance(data, model):
        return data
    if data is not None and not isinstance(data, Mapping):
        raise ConfigError(
            f"{path or 'config'}: expected {model.__name__} or a mapping, got {type(data).__name__}"
        )
    try:
        return model.model_validate(dict(data or {}))
    except ValidationError as error:
        raise ConfigError(problem_text(model, error, path)) from None


def hidden(text: str) -> PydanticCustomError:
    """The error of a validator whose message must not repeat the value, which may be a secret."""
    return PydanticCustomError("hidden", "{text}", {"text": text})


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar candidate, or the only one that begins so, dashes and case aside; None if there is none."""
    plain = {_plain(candidate): candidate for candidate in sorted(candidates)}
    match = difflib.get_close_matches(_plain(word), list(plain), n=1, cutoff=cutoff)
    if not match and len(word) > 2:  # an abbreviation, if it can mean one only
        longer = [one for one in plain if one.startswith(_plain(word))]
        match = longer if len(longer) == 1 else []
    return plain[match[0]] if match else None


def _plain(word: str) -> str:
    return word.replace("-", "_").lower()


class Speller(Protocol):
    """How messages write a key: as the user wrote it, whatever the models call it."""

    def where(self, keys: Sequence[str]) -> str:
        """The key that is wrong."""

    def place(self, keys: Sequence[str], known: str) -> str:
        """A known key, by its dotted path from the root, as advice on the wrong one."""


class _Dotted:
    """The plain form: dots, with a path in front."""

    def __init__(self, path: str) -> None:
        self.path = path

    def where(self, keys: Sequence[str]) -> str:
        return ".".join([self.path, *keys] if self.path else keys)

    def place(self, keys: Sequence[str], known: str) -> str:
        return f"{self.path}.{known}" if self.path else known


def problem_text(
    model: type[BaseModel], error: ValidationError, path: str = "", speller: Speller | None = None
) -> str:
    """All problems of a validation, one a line: key path, what is wrong, the nearest key."""
    spell = speller or _Dotted(path)
    lines: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        keys, owners = _follow(model, problem["loc"])
        text = _text(model, problem, keys, owners, spell, named=not path and speller is None)
        said = lines.setdefault(spell.where(keys) or model.__name__, [])
        if text not in said:
            said.append(text)
    return "\n".join(f"{where}: {', or '.join(said)}" for where, said in lines.items())


def _text(
    model: type[BaseModel],
    problem: ErrorDetails,
    keys: list[str],
    owners: list[type[BaseModel]],
    spell: Speller,
    *,
    named: bool,
) -> str:
    owner = f" of {owners[0].__name__}" if owners and named and len(keys) == 1 else ""
    if problem["type"] == "extra_forbidden":
        return f"unknown key{owner}{_hint(model, keys, owners, spell)}"
    if problem["type"] == "missing":
        return f"required{owner}, but not given"
    if problem["type"] == "hidden":
        return problem["msg"]
    message = problem["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]} (got {_shown(problem['input'])})"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):  # its values may be headers or variables: keys say enough
        value = list(value)
        text = f"the keys {', '.join(map(repr, value))}" if value else "nothing"
    else:
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _hint(model: type[BaseModel], keys: list[str], owners: list[type[BaseModel]], spell: Speller) -> str:
    wrong = keys[-1] if keys else ""
    known = {name for owner in owners for name in owner.model_fields}
    if match := nearest(wrong, known):
        return f"; did you mean {match}?"
    for place in all_keys(model):
        if place.rpartition(".")[2] == _plain(wrong):
            return f"; did you mean {spell.place(keys, place)}?"
    return f"; known keys: {', '.join(sorted(known))}" if known else ""


def _follow(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[list[str], list[type[BaseModel]]]:
    """The keys of a pydantic location without its union tags, and the models that own the last key."""
    keys: list[str] = []
    owners: list[type[BaseModel]] = [model]
    here: list[Any] = [model]
    for step in loc:
        models = [item for item in here if _is_model(item)]
        fields = [item.model_fields[step] for item in models if step in item.model_fields]
        if fields:
            owners, here = models, [leaf for field in fields for leaf in _leaves(field.annotation)]
        elif isinstance(step, str) and any(step == getattr(item, "__name__", None) for item in here):
            # A branch of a union: pydantic puts the name of its class into the location, or its tag.
            here = [item for item in here if step == getattr(item, "__name__", None)]
            continue
        elif isinstance(step, str) and len(here) > 1 and step is not loc[-1]:
            here = [item for item in models if item.__name__ == step or _tagged(item, step)] or here
            continue
        elif models:
            owners = models
        keys.append(str(step))
    return keys, owners


def _tagged(model: type[BaseModel], tag: str) -> bool:
    return any(tag == field.default for field in model.model_fields.values())


def _is_model(item: Any) -> bool:
    return isinstance(item, type) and issubclass(item, BaseModel)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Classes in an annotation: through unions, `Annotated`, lists, and values of dicts."""
    origin = get_origin(annotation)
    if origin is None:
        yield annotation
    elif origin is Annotated:
        yield from _leaves(get_args(annotation)[0])
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _leaves(get_args(annotation)[-1])
    elif origin in (Union, UnionType) or isinstance(origin, type):
        for argument in get_args(annotation):
            yield from _leaves(argument)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation, through unions, `Annotated`, lists and dicts."""
    return [leaf for leaf in _leaves(annotation) if _is_model(leaf)]


def all_keys(
    model: type[BaseModel], prefix: str = "", seen: frozenset[type[BaseModel]] = frozenset()
) -> Iterator[str]:
    """The dotted paths of all fields of a model and of the models in it, each before its own fields."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for leaf in models_in(field.annotation):
            if leaf not in seen:
                yield from all_keys(leaf, f"{prefix}{name}.", seen | {model, leaf})
