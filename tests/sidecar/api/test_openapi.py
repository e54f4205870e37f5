"""The description is whole, consistent, and made from what checks requests."""

import json
import re
from importlib.metadata import version

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from sidecar.api.openapi import openapi_document, openapi_json
from sidecar.api.operations import OPERATIONS
from sidecar.publish.message import PublishRequest


@pytest.fixture(scope="module")
def document():
    return openapi_document()


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_it_is_openapi_3_1_of_this_version(document):
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["version"] == version("sidegate")


def test_its_json_is_the_document(document):
    assert json.loads(openapi_json()) == json.loads(json.dumps(document))


def test_every_reference_leads_somewhere(document):
    found = set(references(document))
    assert found
    for reference in found:
        name = reference.removeprefix("#/components/schemas/")
        assert name in document["components"]["schemas"], reference


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_is_described_with_each_of_its_answers(document, operation):
    found = document["paths"][operation.path][operation.method.lower()]
    assert found["operationId"] == operation.name
    assert found["summary"]
    assert set(found["responses"]) == {str(status) for status in operation.results}
    assert all(answer["description"] for answer in found["responses"].values())
    assert ("requestBody" in found) == (operation.body is not None)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_parameter_of_a_path_is_described(document, operation):
    found = document["paths"][operation.path][operation.method.lower()]
    named = {each["name"] for each in found["parameters"] if each["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", operation.path))
    assert all(each["required"] for each in found["parameters"] if each["in"] == "path")


def test_every_refusal_is_a_problem_document(document):
    for path in document["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"]


def test_the_body_of_a_publish_is_the_type_that_checks_it(document):
    schema = document["components"]["schemas"]["PublishRequest"]
    assert set(schema["properties"]) == set(PublishRequest.__struct_fields__)
    assert schema["required"] == ["topic"]
    assert schema["additionalProperties"] is False


def test_query_parameters_carry_their_limits(document):
    found = document["paths"]["/messages/{topic}"]["get"]["parameters"]
    limit = next(each for each in found if each["name"] == "limit")
    assert limit["in"] == "query"
    assert limit["schema"]["maximum"] == 10_000
    subscribe = document["paths"]["/subscribe/{topic}"]["get"]["parameters"]
    assert {"from", "partition"} <= {each["name"] for each in subscribe}
    assert "Last-Event-ID" in {each["name"] for each in subscribe if each["in"] == "header"}


def test_a_validator_of_openapi_3_1_finds_no_fault(document):
    OpenAPIV31SpecValidator(document).validate()


async def test_every_route_that_is_served_is_described(mesh, document):
    sidecar = await mesh.sidecar(connected=False)
    app = sidecar.assembly.site._app
    served = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.method != "HEAD"
    }
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert served - described == {
        ("GET", "/swagger"),
        ("GET", "/docs/start.js"),
        ("GET", "/docs/{name}"),
    }
    assert described <= served
    for path in ("/docs", "/swagger", "/openapi.json", "/docs/start.js"):
        async with sidecar.client.get(sidecar.base + path) as response:
            assert response.status == 200
            assert b"//cdn" not in await response.read()


async def test_what_is_served_is_the_document(mesh, document):
    sidecar = await mesh.sidecar(connected=False)
    assert (await sidecar.get("/openapi.json"))[1] == json.loads(json.dumps(document))
