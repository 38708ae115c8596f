"""Pages of the site that stand beside docs/, and links to and from them."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "PROOF.md", "bench/RESULTS.md")
"""By their places in a checkout, which they keep below the site."""
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    for name in OUTSIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    here = page.file.src_uri
    in_checkout = here if here in OUTSIDE else f"docs/{here}"
    folder = posixpath.dirname(in_checkout)

    def site_link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        in_site = target if target in OUTSIDE else target.removeprefix("docs/")
        if in_site == target and target not in OUTSIDE:
            return match[0]  # no page of the site: strict mode names it
        relative = posixpath.relpath(in_site, posixpath.dirname(here) or ".")
        return f"]({relative}{match[2] or ''})"

    return _LINK.sub(site_link, markdown)
