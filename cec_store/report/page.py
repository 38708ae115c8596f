"""A report's document as one HTML page that needs nothing else, neither files nor network.

The plots are drawn by `chart.umd.min.js`, unmodified: npm package chart.js version 4.6.1, under the
MIT licence that stands beside it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

from cec_store.inspector.decoding.plain_values import finite, printable

GENERATOR = '<meta name="generator" content="cec-store '
"""Stands near the beginning of every page."""
_HOLE = re.compile(r"\{\{(\w+)\}\}")
_PLACE = {
    "library": "chart.umd.min.js",
    "parts": "parts.js",
    "axes": "axes.js",
    "plots": "plots.js",
    "progress": "progress.js",
    "page": "page.js",
}
_OTHERS = {
    "cluster": {"library": "chart.umd.min.js", "parts": "parts.js", "page": "cluster.js"},
    "fleet": {"parts": "parts.js", "graph": "graph.js", "page": "fleet.js"},
}
"""Parts of pages that are not about a place, by the kind of their document."""
# In a script element these could end it, or begin a comment that swallows its end.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def page_of(document: dict[str, Any]) -> str:
    """The page. Nothing from a log stands in it as markup, and only its own scripts may run."""
    kind = document["kind"]
    template = f"{kind}.html" if kind in _OTHERS else "page.html"
    scripts = {name: _part(file) for name, file in _OTHERS.get(kind, _PLACE).items()}
    style = _part("page.css")
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts.values()))}; "
        f"style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    holes = {
        "policy": policy,
        "title": html.escape(f"{printable(document['path'])} – cec-store report"),
        "release": html.escape(document["release"]),
        "summary": html.escape(printable(document["summary"])),
        "licence": _part("chart.LICENSE.md"),
        "style": style,
        "data": _as_json(document),
        **scripts,
    }
    text = _part(template).replace("{{head}}", _part("head.html"))
    return _HOLE.sub(lambda hole: holes[hole[1]], text)


def _part(name: str) -> str:
    return files("cec_store.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _as_json(document: dict[str, Any]) -> str:
    text = json.dumps(finite(document), allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)
