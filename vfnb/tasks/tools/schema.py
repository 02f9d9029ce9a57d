"""What a tool takes, as a pydantic model: from the annotations and the docstring of its function."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from vfnb.errors import HookError

__all__ = ["Arguments", "arguments_model", "describe", "json_schema", "problem", "values"]

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?):\s*$")
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


class Arguments(BaseModel):
    """Base of all argument models: unknown names are errors, so that the model is told about them."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)


class _Plain(GenerateJsonSchema):
    """JSON schemas without the titles that pydantic makes up from names: the model pays for each token."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def arguments_model(function: Callable[..., Any], name: str, *, label: str) -> type[Arguments]:
    """A model of the function's parameters, `self` left out.

    Args:
        function: a bound method or a plain function.
        name: the tool's name, for the model's.
        label: what messages call the function.

    Raises:
        HookError: a parameter that cannot be given by name, or an annotation without a JSON schema.
    """
    plain = getattr(function, "__func__", function)
    hints = _hints(plain, label)
    _, notes = describe(plain)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            mark = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
            mark = "**" if parameter.kind is parameter.VAR_KEYWORD else mark
            raise HookError(
                f"{label}: `{mark}{parameter.name}` is not possible, a tool is called by parameter names; "
                "name each one, without `/`"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        note = notes.get(parameter.name)
        annotation = hints.get(parameter.name, Any)
        if note is not None:
            annotation = Annotated[annotation, Field(description=note)]
        # An alias: a parameter may have the name of a BaseModel method, or begin with an underscore.
        fields[f"arg_{parameter.name}"] = (annotation, Field(default, alias=parameter.name))
    try:
        model = create_model(f"{name}_arguments", __base__=Arguments, **fields)
        model.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise HookError(f"{label}: its parameters have no JSON schema: {first}; use JSON types") from error
    return model


def json_schema(model: type[Arguments]) -> dict[str, Any]:
    """The schema as a model gets it."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Plain)
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def values(model: type[Arguments], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The checked and converted arguments by parameter name; parameters not given keep their default.

    Raises:
        pydantic.ValidationError: they do not fit.
    """
    checked = model.model_validate(dict(arguments))
    return {field.removeprefix("arg_"): getattr(checked, field) for field in checked.model_fields_set}


def problem(error: ValidationError) -> str:
    """What is wrong with arguments, a line each, for the model to mend."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        where = ".".join(str(step) for step in item["loc"])
        lines.append(f"{where}: {item['msg']}" if where else item["msg"])
    return "\n".join(lines)


def describe(function: Any) -> tuple[str, dict[str, str]]:
    """The docstring without its sections, and the notes on parameters in its `Args` section."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    text: list[str] = []
    notes: dict[str, str] = {}
    section = ""
    block: list[str] = []
    for line in [*lines, "End:"]:
        found = _SECTION.match(line)
        if found is None and line != "End:" and (not section or line.startswith(" ") or not line.strip()):
            (block if section else text).append(line)
            continue
        if section in ("Args", "Arguments", "Parameters"):
            notes |= _notes(block)
        section, block = (found[1], []) if found else ("", [])
        if found is None and line != "End:":
            text.append(line)
    return "\n".join(text).strip(), notes


def _notes(block: list[str]) -> dict[str, str]:
    notes: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent("\n".join(block)).splitlines():
        entry = _ENTRY.match(line)
        if entry:
            name = entry[1]
            notes[name] = entry[2].strip()
        elif name and line.strip():
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return notes


def _hints(function: Any, label: str) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise HookError(
            f"{label}: {error}, used in an annotation; define the type at module level, above the class"
        ) from error
    hints.pop("return", None)
    return hints
