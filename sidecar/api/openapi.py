"""The OpenAPI 3.1 description, made from the operations and the types that check requests."""

import re
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import msgspec
import orjson

from sidecar.api.api_types import Problem
from sidecar.api.operation import Operation
from sidecar.api.operations import ABOUT, OPERATIONS

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NUMBERS: Final = frozenset({"partition", "offset", "reject"})
_REF: Final = "#/components/schemas/{name}"


@cache
def openapi_json() -> bytes:
    """The whole document as JSON."""
    return orjson.dumps(openapi_document())


def openapi_document() -> dict[str, Any]:
    """The whole document."""
    types: list[Any] = [Problem]
    for operation in (*OPERATIONS, *ABOUT):
        types += [result.body for result in operation.results.values() if result.body is not None]
        types += [operation.body] if operation.body is not None else []
    unique = list({repr(each): each for each in types}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    by_type = {repr(each): schema for each, schema in zip(unique, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in (*OPERATIONS, *ABOUT):
        path = paths.setdefault(operation.path, {})
        path[operation.method.lower()] = _operation(operation, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sidegate sidecar",
            "version": version("sidegate"),
            "description": "Publish to the mesh and read from it. For this machine's apps only.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "app_token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Only where the sidecar is configured with an app_token",
                }
            },
        },
        # Either of the two: most sidecars ask for nothing.
        "security": [{}, {"app_token": []}],
    }


def _operation(operation: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.text,
        "parameters": [*_path(operation), *_query(operation), *_headers(operation)],
        "responses": {
            str(status): _response(status, result.text, result.body, result.media, by_type)
            for status, result in sorted(operation.results.items())
        },
    }
    if operation.body is not None:
        document["requestBody"] = {
            "required": True,
            "content": {
                media: {"schema": by_type[repr(operation.body)]} for media in operation.body_media
            },
        }
    return document


def _response(
    status: int, text: str, body: Any, media: str | tuple[str, ...], by_type: dict[str, Any]
) -> dict[str, Any]:
    if status >= 400:
        return {
            "description": text,
            "content": {"application/problem+json": {"schema": by_type[repr(Problem)]}},
        }
    if body is None:
        return {"description": text}
    kinds = (media,) if isinstance(media, str) else media
    content = {kind: {"schema": by_type[repr(body)]} for kind in kinds}
    return {"description": text, "content": content}


def _path(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if name in _NUMBERS else "string"},
        }
        for name in _PATH_PARAMETER.findall(operation.path)
    ]


def _query(operation: Operation) -> list[dict[str, Any]]:
    _reference, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
    properties: dict[str, Any] = components[operation.query.__name__].get("properties", {})
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            **({"description": schema["description"]} if "description" in schema else {}),
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for name, schema in properties.items()
    ]


def _headers(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
        for name, text in operation.headers.items()
    ]
