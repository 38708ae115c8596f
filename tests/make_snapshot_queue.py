"""Makes tests/snapshots/queue, whose bytes are committed: compression may differ elsewhere."""

import shutil
from pathlib import Path

from damaged_queues import make_operator_queue

FOLDER = Path(__file__).parent / "snapshots" / "queue"

if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    make_operator_queue(FOLDER, 300, reopen_at=130, step_rows=20, segment_bytes=4500)
    (FOLDER / "writer.lock").unlink()
