"""A reader in a process of its own, next to a writer; its words are PATH SEED SECONDS HOW.

It checks each frame's number and content and prints, as JSON, what it met.
"""

import json
import sys
import time
from itertools import islice

import pyarrow as pa

from cec_store.errors import OutOfRange
from cec_store.log.chain import Chain
from cec_store.log.frames import Frame
from cec_store.storage.local import LocalFolder
from cec_store.values import Address
from support.processes.killed_writer import SCHEMA, batch_of


class Reader:
    def __init__(self, path: str, seed: int) -> None:
        self.folder = LocalFolder(path)
        self.seed = seed
        self.met = {"frames": 0, "openings": 0, "trimmed": 0, "segments": 0}

    def require(self, chain: Chain, frame: Frame, due: int | None) -> int:
        seq = frame.header.seq
        if due not in (None, seq):
            raise AssertionError(f"frame {seq} where {due} is due")
        if seq >= chain.end.seq:
            raise AssertionError(f"frame {seq} beyond the end, {chain.end.seq}")
        data: pa.RecordBatch = chain.records(frame).select(SCHEMA.data.names)
        if not data.equals(batch_of(self.seed, seq)):
            raise AssertionError(f"frame {seq} is not what was appended")
        self.met["frames"] += 1
        return seq + 1

    def follow(self, until: float) -> None:
        """Goes along with the writer; starts over where it was trimmed away."""
        while time.monotonic() < until:
            try:
                chain = Chain(self.folder)
                self.met["openings"] += 1
                self.follow_one(chain, until)
            except OutOfRange:
                self.met["trimmed"] += 1

    def follow_one(self, chain: Chain, until: float) -> None:
        due: int | None = None
        here: Address | None = None
        end = chain.end
        while time.monotonic() < until:
            for frame in chain.frames(here):
                due = self.require(chain, frame, due)
                if here is None or frame.address.segment_id != here.segment_id:
                    self.met["segments"] += 1
                here = frame.next_address
            before, end = end, chain.refresh()
            if (end.seq, end.offset) < (before.seq, before.offset):
                raise AssertionError(f"the end went back, from {before} to {end}")

    def reopen(self, until: float) -> None:
        """Opens anew each time and reads a few frames from the start, and backward from the end."""
        end = 0
        while time.monotonic() < until:
            try:
                chain = Chain(self.folder)
                self.met["openings"] += 1
                if chain.end.seq < end:
                    raise AssertionError(f"the end went back, from {end} to {chain.end.seq}")
                end = chain.end.seq
                due = None
                for frame in islice(chain.frames(), 5):
                    due = self.require(chain, frame, due)
                frame = chain.last()
                for _ in range(5):
                    if frame is None:
                        break
                    self.require(chain, frame, None)
                    frame = chain.before(frame)
            except OutOfRange:
                self.met["trimmed"] += 1


def main() -> None:
    path, seed, seconds, how = sys.argv[1:]
    reader = Reader(path, int(seed))
    batch_of(0, 0)
    getattr(reader, how)(time.monotonic() + float(seconds))
    print(json.dumps(reader.met))


if __name__ == "__main__":
    main()
