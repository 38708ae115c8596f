"""Figures that the availability paper prints (7): Tables 6 to 8, and its text on Figures 6 and 7.

Its plots have no numbers at their points; axes and text bound a few.
"""

from __future__ import annotations

# Of each network: bandwidth overhead in per cent and recovery time in ms, by scheme.
TABLE_6 = {
    "filter": {
        "upstream backup": (0.64, 47.62),
        "active standby": (100.96, 1.80),
        "passive standby": (101.27, 45.88),
    },
    "aggregate": {
        "upstream backup": (0.64, 69.86),
        "active standby": (100.96, 0.07),
        "passive standby": (111.55, 48.88),
    },
    "union": {
        "upstream backup": (1.28, 50.92),
        "active standby": (101.91, 1.82),
        "passive standby": (101.90, 47.24),
    },
}
# By window, and by advance, in tuples: overhead and recovery of passive standby, and recovery of
# upstream backup.
TABLE_7 = {
    100: (111.55, 48.9, 69.9),
    200: (111.55, 51.7, 98.9),
    300: (111.54, 54.6, 138.7),
    400: (111.54, 60.0, 188.5),
    500: (111.54, 63.9, 248.3),
}
TABLE_8 = {
    100: (102.6, 47.5, 62.6),
    50: (103.6, 47.5, 61.4),
    25: (105.6, 47.6, 61.3),
    10: (111.6, 48.8, 69.9),
    5: (121.5, 51.6, 83.8),
}
INTERVALS_MS = (25, 50, 100, 150, 200)
# "an overhead of 0.64 %" of upstream backup with 25 ms (7.1), where Table 6 has it with 50 ms.
FIGURE_6_UPSTREAM_25_PERCENT = 0.64
# "a little over 16 %" more where recovery is precise (7.2).
PRECISE_UPSTREAM_PERCENT = 16.0
OPERATORS = (1, 2, 3, 4, 5)
# "It reaches 170 ms for 5 operators" (7.4).
FIGURE_7_UPSTREAM_5_MS = 170.0
