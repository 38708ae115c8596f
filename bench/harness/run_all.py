"""Run every benchmark that has targets at full size and write RESULTS.md: `make bench`.

With `--only` the results of the other scripts stay; each says when and at which commit it was run.
In another environment, and with `--quick`, a page of your own takes the results: `--results FILE`.
`--render` runs nothing and writes the page anew, as after a change of targets.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench.harness.machine import describe
from bench.harness.results import MEASURED, Run, all_runs, kept, number, rendered
from bench.harness.rounds import WORK
from bench.harness.targets import BENCH, all_targets

RESULTS = BENCH / "RESULTS.md"


def run(script: str, arguments: list[str]) -> Run:
    """Run the script in a process of its own.

    Raises:
        SystemExit: it has failed; says what it wrote to its standard error.
    """
    facts = describe(WORK)
    command = [sys.executable, str(BENCH / script), *arguments]
    print(f"{script} …", flush=True)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, errors = process.communicate()
        except KeyboardInterrupt:
            # The script was interrupted too, and ends what it has started. This takes time.
            process.communicate()
            raise
    if process.returncode:
        raise SystemExit(f"{script} failed:\n{errors}")
    *lines, last = output.rstrip().splitlines()
    print("\n".join(lines), flush=True)
    return Run(
        " ".join(["python", f"bench/{script}", *arguments]),
        ", ".join(f"{name} {facts[name]}" for name in MEASURED),
        "\n".join(lines),
        json.loads(last),
    )


def main() -> int:
    """Run what the command line asks for; return 1 if a target is missed."""
    targets = all_targets()
    scripts = tuple(dict.fromkeys(target.script for target in targets))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", choices=scripts, default=scripts)
    parser.add_argument("--render", action="store_true", help="run nothing, write the page anew")
    asked = parser.parse_args()
    if asked.quick and asked.results.resolve() == RESULTS:
        parser.error("--quick: its figures are no results; name another page by --results FILE")
    WORK.mkdir(parents=True, exist_ok=True)
    facts = describe(WORK)
    results = asked.results.read_text(encoding="utf-8") if asked.results.exists() else ""
    runs = kept(results, facts)
    if asked.render:
        if not runs:
            raise SystemExit(f"{asked.results} has no runs of this machine, and stays as it is")
        asked.results.write_text(rendered(facts, runs, targets), encoding="utf-8")
        return 0
    if set(asked.only) != set(scripts) and not runs and all_runs(results):
        raise SystemExit(
            f"{asked.results} has runs of another environment, which would be lost:"
            " run all scripts, or name another page by --results FILE"
        )
    for script in asked.only:
        runs[script] = run(script, ["--quick"] if asked.quick else [])
        asked.results.write_text(rendered(facts, runs, targets), encoding="utf-8")
    # A quick run does not have all figures.
    measured = [
        (target, runs[target.script].figures[target.figure])
        for target in targets
        if target.script in asked.only and target.figure in runs[target.script].figures
    ]
    missed = [
        f"{target.figure} is {number(value)}, not {target.bound}"
        for target, value in measured
        if not target.met_by(value)
    ]
    print("\n".join(missed) or "every target is met")
    return len(missed) > 0


if __name__ == "__main__":
    sys.exit(main())
