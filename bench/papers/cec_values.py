"""Numbers that the paper's text gives of its figures (IV.A to IV.C).

Its plots have more; a number that the text only bounds is left out rather than guessed.
"""

from __future__ import annotations

OPEN_WINDOWS = 90_000

FIGURE_5 = {
    "drop of Gopen/Net": "less than 10 %",
    "drop of Gopen/Disk": "nearly that of Gopen/Net",
    "Real": "twice the results",
    "processor, native": "150 % (fast), 130 % (slow)",
    "processor, Gopen/Disk": "200 % (fast)",
}

# By factor of the open windows. The text gives loads as two ranges: 3.5 to 5 s for the smaller two
# extents, 14 to 27 s for the larger two, and bytes as 25 to 50 MB and "more than 200 MB".
FIGURE_6_EXTENT = {1: 120_000, 2: 180_000, 8: 500_000}
FIGURE_6_LOAD_S = {1: 3.5, 2: 5.0, 4: 14.0, 8: 27.0}
FIGURE_6_REPLAY_MB = {1: 25.0, 2: 50.0, 8: 200.0}

# By rows: the ends of the ranges.
FIGURE_7_EXTENT = {125_000: 120_000, 1_000_000: 230_000}
FIGURE_7_LOAD_S = {125_000: 2.5, 1_000_000: 6.7}
FIGURE_7_REPLAY_MB = {125_000: 20.0, 1_000_000: 90.0}

# Response times in seconds by CP in milliseconds. The paper prints "18.5ms, 21.5ms" between 16.5 s
# and 32.5 s: seconds are meant.
FIGURE_8_RESPONSE_S = {"none": 16.5, "100": 18.5, "50": 21.5, "25": 32.5}

LOAD_180K_S = "3.5 to 5"
