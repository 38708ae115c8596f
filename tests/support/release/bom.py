"""The SBOM of a wheel, in CycloneDX: what pip installs with it, and what it carries of others."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

_VALIDATE = """\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
version = SchemaVersion.from_version(sys.argv[1])
error = JsonStrictValidator(version).validate_str(sys.stdin.read())
sys.exit(str(error) if error else 0)
"""
_BANNER = re.compile(r"^ \* (@?[\w./]+?)(?:\.js)? v(\d[\w.-]*)\n \* (https?://\S+)", re.MULTILINE)
_NPM_NAMES = {"Chart": "chart.js"}


def carried(script: str) -> list[dict[str, Any]]:
    """Components of the report's script, by the banners that its libraries have in it."""
    components = []
    for name, version, url in _BANNER.findall(script):
        npm = _NPM_NAMES.get(name, name)
        purl = f"pkg:npm/{npm.replace('@', '%40')}@{version}"
        components.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": npm,
                "version": version,
                "purl": purl,
                "licenses": [{"license": {"id": "MIT"}}],
                "externalReferences": [{"type": "website", "url": url}],
                "description": "carried by the wheel, in the report's page",
            }
        )
    return components


def with_components(document: dict[str, Any], more: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an SBOM with more components, on which the main one depends."""
    main = document["metadata"]["component"]["bom-ref"]
    references = [component["bom-ref"] for component in more]
    dependencies = [
        {**entry, "dependsOn": sorted({*entry.get("dependsOn", []), *references})}
        if entry["ref"] == main
        else entry
        for entry in document["dependencies"]
    ]
    return {
        **document,
        "components": [*document["components"], *more],
        "dependencies": [*dependencies, *({"ref": reference} for reference in references)],
    }


def write(tools: Path, python: Path, checkout: Path, into: Path, epoch_s: int) -> int:
    """Write the SBOM of an environment that has the wheel; return its number of components.

    Args:
        tools: folder of programs, with that of cyclonedx-bom.
        python: interpreter of the environment.

    Raises:
        SystemExit: cyclonedx-bom refuses; its message stands above.
    """
    command = [
        str(tools / "cyclonedx-py"), "environment", "--output-reproducible", "--mc-type", "library",
        "--pyproject", str(checkout / "pyproject.toml"), "-o", "-", str(python),
    ]  # fmt: skip
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s)}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=variables, text=True)
    if done.returncode:
        raise SystemExit("no SBOM could be made")
    script = (checkout / "cec_store" / "report" / "chart.umd.min.js").read_text(encoding="utf-8")
    document = with_components(without_installer(json.loads(done.stdout)), carried(script))
    text = json.dumps(document, indent=1) + "\n"
    validate = [str(tools / "python"), "-c", _VALIDATE, document["specVersion"]]
    if subprocess.run(validate, input=text, text=True).returncode:
        raise SystemExit("the SBOM does not keep to CycloneDX")
    into.write_text(text, encoding="utf-8")
    return len(document["components"])


def without_installer(document: dict[str, Any]) -> dict[str, Any]:
    """Return an SBOM without the programs that only put packages into the environment."""
    gone = {c["bom-ref"] for c in document["components"] if c["name"] in ("pip", "setuptools")}
    return {
        **document,
        "components": [c for c in document["components"] if c["bom-ref"] not in gone],
        "dependencies": [entry for entry in document["dependencies"] if entry["ref"] not in gone],
    }
