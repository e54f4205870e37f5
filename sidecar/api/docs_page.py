"""Swagger UI at `/docs`, with assets from an installed package: no page asks another server."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ASSETS: Final = {
    "swagger-ui.js": ("swagger_bundle.js", "text/javascript"),
    "swagger-ui.css": ("swagger_style.css", "text/css"),
}
"""Our name → the package's file and its media type."""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sidegate sidecar</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="ui"></div>
<script src="/docs/swagger-ui.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START: Final = """SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#ui", deepLinking: true, validatorUrl: null,
  defaultModelsExpandDepth: 0, tryItOutEnabled: true,
});
"""
SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The page may ask this sidecar only, and nobody may frame it."""


def page() -> bytes:
    """The HTML page."""
    return _PAGE.encode()


def start_script() -> bytes:
    """What starts Swagger UI, as a file of its own so that no inline script is allowed."""
    return _START.encode()


def asset(name: str) -> tuple[Path, str] | None:
    """An asset's file and media type, or None."""
    entry = ASSETS.get(name)
    return (_folder() / entry[0], entry[1]) if entry is not None else None


@cache
def _folder() -> Path:
    """The package's folder, found without importing it: its import reads megabytes."""
    spec = find_spec("offapi")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the package offapi is not installed; install Sidegate again")
    return Path(spec.submodule_search_locations[0])
