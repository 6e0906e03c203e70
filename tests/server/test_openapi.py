"""The OpenAPI document: what it promises, and requests made from it."""

from __future__ import annotations

import asyncio
import warnings

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from served import Running
from served_graphs import EUROPE
from tacit.server.app import create_app
from tacit.server.settings import ServerSettings


def test_every_route_is_described_with_its_errors(service: Running) -> None:
    document = service.client.get("/openapi.json").json()
    expected = {
        "/ask",
        "/explain",
        "/plan",
        "/entities",
        "/relations",
        "/examples",
        "/sparql",
        "/read",
    }
    expected |= {
        "/rules",
        "/facts",
        "/facts/remove",
        "/health",
        "/ready",
        "/metrics",
        "/entity",
        "/entity/predictions",
        "/entity/values",
        "/attributes",
        "/attribute",
    }
    assert set(document["paths"]) == expected
    for path, methods in document["paths"].items():
        for route in methods.values():
            assert route["summary"], path
            assert route["description"], path
            assert route["responses"]["422"]["content"]["application/json"]["schema"][
                "$ref"
            ].endswith("/ErrorReply")


def test_it_says_where_a_key_is_needed(service: Running) -> None:
    document = service.client.get("/openapi.json").json()
    keyed = create_app({"europe": EUROPE}, ServerSettings(api_key="sesame")).openapi()
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    schemes |= {"header": {"type": "apiKey", "in": "header", "name": "X-API-Key"}}
    for each, may_lack in ((document, [{}]), (keyed, [])):
        assert each["components"]["securitySchemes"] == schemes
        for path, methods in each["paths"].items():
            for route in methods.values():
                is_open = path in ("/health", "/ready")
                assert route.get("security") == (
                    None if is_open else [{"bearer": []}, {"header": []}, *may_lack]
                )
                assert ("401" in route["responses"]) is not is_open


def test_requests_are_held_against_it_where_the_service_is_a_part_of_another() -> None:
    transport = httpx.ASGITransport(
        Starlette(routes=[Mount("/graphs", create_app({"europe": EUROPE}))])
    )

    async def statuses(*queries: str) -> list[int]:
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1/graphs"
        ) as client:
            return [(await client.get(f"/entities?{query}")).status_code for query in queries]

    assert asyncio.run(statuses("q=fr", "query=fr")) == [200, 422]


def test_its_examples_are_questions(service: Running) -> None:
    schemas = service.client.get("/openapi.json").json()["components"]["schemas"]
    for example in schemas["AskRequest"]["properties"]["query"]["examples"]:
        assert service.ask(example).status_code == 200


def test_nothing_made_from_it_is_a_fault_of_the_service(service: Running) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the tool, when it is loaded
        import schemathesis
        from schemathesis.specs.openapi.checks import (
            content_type_conformance,
            response_schema_conformance,
            status_code_conformance,
        )

    schema = schemathesis.openapi.from_dict(service.client.get("/openapi.json").json())
    schema.config.update(base_url=service.url)
    checks = [
        schemathesis.checks.not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    ]
    for operation in schema.get_all_operations():

        @given(case=operation.ok().as_strategy())
        @settings(
            max_examples=10,
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        def fuzz(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=checks)

        fuzz()
    assert service.healthy()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    query=st.one_of(
        st.text(max_size=80), st.text(alphabet="?xy:&|!(),. borders\"'^-1", max_size=80)
    )
)
def test_no_text_is_a_fault_of_the_service(service: Running, query: str) -> None:
    for path, body in (("/ask", {"query": query}), ("/plan", {"query": query})):
        response = service.client.post(path, json=body)
        assert response.status_code in (200, 422)
        assert response.status_code == 200 or "\n" not in response.json()["error"]["message"]


def test_lone_surrogates_are_refused_or_answered(service: Running) -> None:
    content = b'{"query": "?c : borders(\\ud800, ?c)"}'
    response = httpx.post(
        service.url + "ask", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code in (400, 422)
