"""The docs page asks this sidecar and nobody else."""

import re

from sidecar.api.docs_page import ASSETS, SECURITY_POLICY, asset, page, start_script


def test_every_file_that_the_page_loads_is_served_here():
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page().decode())
    local = {link for link in loaded if not link.startswith("data:")}
    assert local == {"/docs/start.js", *(f"/docs/{name}" for name in ASSETS)}


def test_neither_page_nor_script_names_another_server():
    for text in (page(), start_script()):
        assert b"//" not in text.replace(b"<!doctype", b"")
    assert b'"/openapi.json"' in start_script()


def test_assets_come_from_an_installed_package_and_have_their_types():
    for name, (_file, media) in ASSETS.items():
        found = asset(name)
        assert found is not None
        path, told = found
        assert told == media
        assert path.stat().st_size > 10_000
    assert b"SwaggerUIBundle" in asset("swagger-ui.js")[0].read_bytes()


def test_no_other_file_is_given_out():
    for name in ("", "..", "../__init__.py", "swagger_bundle.js", "__init__.py"):
        assert asset(name) is None


def test_the_policy_allows_this_server_alone_and_no_inline_script():
    rules = dict(rule.strip().split(" ", 1) for rule in SECURITY_POLICY.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert not re.search(rb"<script(?![^>]* src=)", page())
