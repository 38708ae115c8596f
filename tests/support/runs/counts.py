"""How much a crash suite does: all of it under `CEC_CRASH=full`, a small part without."""

import os

CRASH_FULL = os.environ.get("CEC_CRASH", "quick") == "full"
