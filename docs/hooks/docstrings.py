"""Removal of Sphinx's roles from docstrings: the site shows the name alone."""

import re
from typing import Any

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(<code>)~?")


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    return _ROLE.sub(r"\1", html)
