"""Makes tests/data/snapshots/queue: `PYTHONPATH=tests python -m support.vectors.snapshot_queue`.

Its bytes are committed, since compression may differ elsewhere.
"""

import shutil

from support.paths import SNAPSHOT_QUEUE
from support.places.damaged_queues import make_operator_queue

if __name__ == "__main__":
    shutil.rmtree(SNAPSHOT_QUEUE, ignore_errors=True)
    make_operator_queue(SNAPSHOT_QUEUE, 300, reopen_at=130, step_rows=20, segment_bytes=4000)
    (SNAPSHOT_QUEUE / "writer.lock").unlink()
