#!/usr/bin/env bash
# scipy 1.17.1: `milp` on one problem in two units: jobs of 0.6 s on a machine with room for 1 s, then the same in microseconds
# written as fractions of a second. A guess: a linear constraint means the same whatever unit both of its sides are in.
#
# Seen: the tolerance of HiGHS is absolute. In seconds one job is taken; divided by a million all three are, 1.8 times the room,
# and the answer says that it is optimal (status 0). No warning, and no option of `milp` changes that tolerance: scale the rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import scipy
from scipy.optimize import Bounds, LinearConstraint, milp


def taken(unit: float) -> tuple[int, int]:
    load = np.array([[0.6, 0.6, 0.6]]) * unit
    answer = milp(-np.ones(3), integrality=np.ones(3), bounds=Bounds(0, 1),
                  constraints=[LinearConstraint(load, -np.inf, unit)])
    return answer.status, int(round(answer.x.sum()))


found = {unit: taken(unit) for unit in (1.0, 1e-3, 1e-6)}
print(scipy.__version__, found)
assert found == {1.0: (0, 1), 1e-3: (0, 1), 1e-6: (0, 3)}
PYTHON
