"""Three nodes in processes of their own: killed, stopped, told to change places."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

from cec_store import NotAQueue, QueueOptions, leases_of, open_queue
from cec_store.standby.lease_format import Cause, tenure_name
from cec_store.standby.leases import Sign
from cec_store.standby.nodes.members import Members
from cec_store.standby.nodes.orders import Orders
from cec_store.standby.schemes import Scheme
from support.crashes.acknowledged_chains import ROWS
from support.standby.two_nodes import Slot, expected, rows_between

KEEP_ALIVE = (0.05, 8)
DAMPING_S = 0.8
DEADLINE_S = 60.0
RULES = {"damping_s": DAMPING_S, "turn_s": 3.0}


class Cluster:
    """One case after the other, by nodes a, b and c."""

    def __init__(self) -> None:
        self._events: SimpleQueue[tuple[Slot, dict]] = SimpleQueue()
        program = "support.standby.cluster_node"
        self.slots = {name: Slot(name, self._events, program) for name in "abc"}

    def close(self) -> None:
        for slot in self.slots.values():
            slot.close()

    # -- what the nodes say -------------------------------------------------------------------

    def _hear(self, timeout_s: float) -> None:
        try:
            slot, event = self._events.get(timeout=timeout_s)
        except Empty:
            return
        if "pid" in event:
            slot.pid = event["pid"]
        elif "state" in event:
            slot.state = event["state"]
            if event["by"] is not None:
                self.takeovers[event["by"]["tenure"]] = {"node": slot.name, **event["by"]}
        elif "ended" in event:
            slot.state, slot.pid = "dead", 0
            assert event["ended"] == signal.SIGKILL, f"node {slot.name} ended: {event}"
        else:
            raise AssertionError(f"node {slot.name}: {event}")

    def wait(self, until: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not until():
            self._hear(0.02)
            states = {name: (slot.state, slot.pid) for name, slot in self.slots.items()}
            assert time.monotonic() < deadline_s, f"{what}: the nodes are {states}"

    def primary(self) -> Slot:
        """The node of the newest tenure, once it works."""

        def works() -> bool:
            newest = self.objects.newest()
            return newest is not None and self.slots[newest.holder].state == "primary"

        self.wait(works, "for a primary")
        newest = self.objects.newest()
        assert newest is not None
        return self.slots[newest.holder]

    # -- a case -------------------------------------------------------------------------------

    def run(
        self, place: Path, operator: str, scheme: Scheme, seed: int, takeovers: int
    ) -> list[dict]:
        """The output after so many takeovers at least."""
        self.rng = random.Random(seed)
        self.takeovers: dict[int, dict] = {}
        self.chosen = 0
        """Takeovers at which one standby was behind, so that there was a choice."""
        self.history: dict[int, tuple[Cause, str, float]] = {}
        """Of each tenure its cause, its holder, and when it began by the store's clock, seconds."""
        self.rows = 40 * takeovers + 60
        self.order = {
            "place": str(place), "operator": operator, "scheme": scheme.value,
            "output": str(place / "out"), "rules": RULES, "keep_alive": KEEP_ALIVE,
        }  # fmt: skip
        self.place = place
        leases = leases_of(self.order["output"])
        self.objects = leases.objects("primary")
        self.orders = Orders(self.objects)
        self.members = Members(leases, "primary")
        with ExitStack() as held:
            held.callback(self._end_all)
            options = QueueOptions(segment_bytes=4_000)
            path = place / "in-0"
            self.input = held.enter_context(open_queue(path, "x", schema=ROWS, options=options))
            self.feed(30)
            for name in self.slots:
                self._start(name)
            self.primary()
            while self._newest_number() <= takeovers:
                self._disturb()
            self.feed(self.rows)
            rows = self._output(len(expected(operator, self.rows)))
            self.members.close()
            return rows

    def _end_all(self) -> None:
        for slot in self.slots.values():
            if slot.pid:
                os.kill(slot.pid, signal.SIGKILL)
        self.wait(lambda: not any(slot.pid for slot in self.slots.values()), "to end")

    def _output(self, count: int) -> list[dict]:
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            self._hear(0.05)
            try:
                with open_queue(self.order["output"]) as out:
                    rows = [row for batch in out.replay() for row in batch.to_pylist()]
            except NotAQueue:
                rows = []
            if len(rows) >= count:
                return rows
            assert time.monotonic() < deadline_s, f"{len(rows)} of {count} rows"

    def _start(self, name: str) -> None:
        self.slots[name].start({**self.order, "name": name})

    def feed(self, count: int) -> None:
        start, stop = self.input.end_offset, min(self.rows, self.input.end_offset + count)
        if start < stop:
            part = rows_between(start, stop, 0)
            self.input.append(part.select(ROWS.names), part.column("t").combine_chunks())
            self.input.sync()
            self.input.trim(self.input.end_offset)

    def _back(self, slot: Slot) -> None:
        def stands_by() -> bool:
            return slot.state in ("ready", "primary")

        self.wait(stands_by, f"{slot.name} to come back")

    def _disturb(self) -> None:
        primary = self.primary()
        for slot in self.slots.values():
            self._back(slot)
        chosen = self.rng.random()
        if chosen < 0.25:
            self._switch(primary)
        elif chosen < 0.35:
            self._killed_and_back_at_once(primary)
        else:
            self._fail(primary, is_kill=chosen < 0.8)

    def _switch(self, primary: Slot) -> None:
        others = sorted(name for name in self.slots if name != primary.name)
        to = self.rng.choice(others)
        newest = self.objects.newest()
        assert newest is not None
        if newest.holder != primary.name:
            return
        self.orders.give(lambda before: replace(before, to=to, after=newest.number))
        self.feed(self.rng.choice([0, 20]))
        self.wait(lambda: self._newest_number() > newest.number, "a switchover")

    def _killed_and_back_at_once(self, primary: Slot) -> None:
        """Within the damping it goes on itself; later another one may have taken over."""
        self._kill(primary)
        self._start(primary.name)
        self._back(primary)
        self.primary()

    def _fail(self, primary: Slot, *, is_kill: bool) -> None:
        """One standby is behind; the other one takes over."""
        before = self._newest_number()
        others = sorted(name for name in self.slots if name != primary.name)
        slow = self.rng.choice(others)
        (best,) = (name for name in others if name != slow)
        lag_file = self.place / f"lags-{slow}"
        lag_file.touch()
        self.feed(20)
        is_behind = self._is_behind(slow, best)
        if self._newest_number() > before:  # it was silent for too long, on a busy machine
            lag_file.unlink()
            return
        if is_kill:
            self._kill(primary)
        else:
            os.kill(primary.pid, signal.SIGSTOP)
        self.wait(lambda: self._newest_number() > before, "a takeover")
        after = self.primary()
        if is_behind and before + 1 in self.takeovers:
            self._check_choice(self.takeovers[before + 1], slow, best)
        lag_file.unlink()
        if is_kill:
            self._start(primary.name)
        else:
            os.kill(primary.pid, signal.SIGCONT)
            self.wait(lambda: primary.state != "primary" or after is primary, "to be fenced")

    def _check_choice(self, decided: dict, slow: str, best: str) -> None:
        sign = decided["members"].get(best, ["never seen"])[0]
        if sign == Sign.ALIVE.value:
            assert decided["node"] == best, f"{slow} was behind, and took over: {decided}"
            self.chosen += 1

    def _is_behind(self, slow: str, best: str) -> bool:
        """Wait until one standby's note says more than the other's; false where none will."""
        end_s = time.monotonic() + 1.0
        since_s: float | None = None
        while time.monotonic() < end_s:
            self._hear(0.01)
            notes = {member.name: member.note for member in self.members.look()}
            positions = notes[slow].position, notes[best].position
            if None in positions or positions[0] >= positions[1]:  # type: ignore[operator]
                since_s = None
                continue
            since_s = since_s or time.monotonic()
            # A look that had begun before the file was there may end with a newer position.
            if time.monotonic() - since_s > 4 * KEEP_ALIVE[0]:
                return True
        return False

    def _newest_number(self) -> int:
        for tenure in self.objects.kept_tenures():
            if tenure.number not in self.history:
                began_us = self.objects.store.modified_us(tenure_name(tenure.number))
                self.history[tenure.number] = tenure.cause, tenure.holder, began_us / 1e6
        return max(self.history, default=0)

    def failover_gaps_s(self) -> list[float]:
        """Seconds between each failover and the next."""
        began = [
            began_s for _, (cause, _, began_s) in sorted(self.history.items())
            if cause is Cause.FAILOVER
        ]  # fmt: skip
        return [after - before for before, after in itertools.pairwise(began)]

    def _kill(self, slot: Slot) -> None:
        os.kill(slot.pid, signal.SIGKILL)
        self.wait(lambda: slot.state == "dead", "a node to end")
