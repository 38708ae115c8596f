"""Bugs that a store like this one has been seen to have, to be planted one at a time.

``CEC_PLANT=name pytest …`` runs any tests with that bug in the code (tests/conftest.py). They show
that the suites can fail: tests/faults/test_planted_bugs.py has each one caught.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from types import FunctionType
from typing import Any

import pyarrow as pa

from cec_store.checkpoints.checkpointer import Checkpointer
from cec_store.checkpoints.determinants import Determinants
from cec_store.format import frame
from cec_store.format.columns import Ints
from cec_store.format.durable_end import DurableEnd
from cec_store.format.frame import BadHeader
from cec_store.indexes import stored, timestamp
from cec_store.log import known_end, segment_file, tail, writer
from cec_store.log import reopening as recovery
from cec_store.log.forward_scan import running_crcs_of
from cec_store.log.reader import LogReader
from cec_store.log.segment import SegmentReader, SegmentWriter
from cec_store.log.writer import Cursor, LogWriter
from cec_store.operators import recovery as operator_recovery
from cec_store.operators.acknowledging import NeededInput
from cec_store.operators.aggregate.aggregate import Aggregate
from cec_store.operators.aggregate.session_slots import SessionSlots
from cec_store.operators.contract import NO_SLOTS, Step
from cec_store.operators.inputs.arrivals import InputAgain
from cec_store.operators.recovery import Restored
from cec_store.operators.runner import Runner
from cec_store.queues import appendable_queue, consumers, trimming
from cec_store.queues.holding import Holding
from cec_store.standby.followers.shadow import Shadow
from cec_store.standby.followers.warm_state import WarmState
from cec_store.storage import local_files as files
from cec_store.storage.local import LocalFolder
from cec_store.values import Address
from support.disks.simulated_folder import SimulatedFolder
from support.runs import planted_in_commits
from support.spark import planted as provider

VARIABLE = "CEC_PLANT"
BUGS: dict[str, Callable[[], None]] = {}
"""By name; calling one changes the code for good, so only ever in a process of its own."""


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


@bug
def acknowledges_before_the_sync() -> None:
    def no_sync(self: SegmentWriter) -> None:
        self.synced_bytes = self.bytes

    SegmentWriter.sync = no_sync


@bug
def vouches_before_the_sync() -> None:
    """Headers say that all before them is on disk."""
    write = LogWriter._append

    def append(self: LogWriter, *parts: Any, **more: int) -> int:
        self._segment.synced_bytes = self._segment.bytes
        return write(self, *parts, **more)

    LogWriter._append = append


@bug
def notes_the_durable_end_before_the_sync() -> None:
    first = SegmentWriter.sync

    def sync(self: LogWriter) -> None:
        self._segment.synced_bytes = self._segment.bytes
        self._note_durable_end()
        first(self._segment)
        self._refuse_if_fenced()
        self.durable = Cursor(self.cursor.seq, self.cursor.offset)

    LogWriter.sync = sync


@bug
def takes_the_segments_word_for_its_end() -> None:
    """As if nobody had noted how far it was on disk."""
    known_end._newest_of = lambda manifest, notes: None


@bug
def removes_segments_that_an_older_manifest_does_not_know() -> None:
    known_end._refuse_unknown_notes = lambda folder, manifest, notes: None
    for place in (known_end, recovery):
        place.refuse_unknown_segments = lambda folder, manifest, names: None


@bug
def leaves_a_takeover_unlocked() -> None:
    appendable_queue.refuse_if_held = lambda folder: None


@bug
def acknowledges_before_the_note() -> None:
    """The frames are on disk, and nothing says so."""

    def sync(self: LogWriter) -> None:
        self._segment.sync()
        self._refuse_if_fenced()
        self.durable = Cursor(self.cursor.seq, self.cursor.offset)

    LogWriter.sync = sync


@bug
def never_syncs_the_directory() -> None:
    SimulatedFolder.sync_names = lambda self: None


@bug
def tries_a_failed_sync_again() -> None:
    first = SegmentWriter.sync

    def sync(self: SegmentWriter) -> None:
        try:
            first(self)
        except Exception:
            first(self)

    SegmentWriter.sync = sync


def with_all_vouched(reader: SegmentReader, found: tail.Tail) -> tail.Tail:
    start = 0 if found.noted is None else found.noted.byte
    behind = [(byte, header) for byte, header in found.frames if byte >= start]
    crc = running_crcs_of(reader.header, behind, found.noted)[found.end]
    return replace(found, vouched_end=found.end, running_crc=crc)


@bug
def trusts_whole_frames_that_nobody_vouched_for() -> None:
    """After a failed sync they are read back from memory, and left where they are."""
    read = recovery.read_tail

    def read_tail(
        reader: SegmentReader,
        sealed_end: int | None = None,
        noted: DurableEnd | None = None,
        proven: DurableEnd | None = None,
    ) -> tail.Tail:
        found = read(reader, sealed_end, noted, proven)
        return with_all_vouched(reader, found)

    recovery.read_tail = read_tail


@bug
def takes_a_part_of_a_step_for_the_step() -> None:
    """Every whole frame counts at once, whatever it says about the next one."""
    tail.without_unfinished_step = lambda frames: frames


@bug
def reads_the_manifest_before_its_claim() -> None:
    claim, read, found = recovery.claim_epoch, recovery.read_known_end, []

    def claim_epoch(folder: SimulatedFolder) -> int:
        found.append(read(folder))
        return claim(folder)

    recovery.claim_epoch = claim_epoch
    recovery.read_known_end = lambda folder: found.pop() if found else read(folder)


@bug
def trims_by_frames_that_a_crash_can_hide() -> None:
    """The note that shows the last frames is not on disk when those before them go."""
    first = LogWriter.trim

    def trim(self: LogWriter, first_segment: int) -> list[int]:
        self._note.sync = lambda: None
        try:
            return first(self, first_segment)
        finally:
            del self._note.sync

    LogWriter.trim = trim


@bug
def looks_for_a_successor_before_the_write() -> None:
    write = LogWriter.append

    def append(self: LogWriter, *record: object) -> None:
        self._refuse_if_fenced()
        write(self, *record)

    def sync(self: LogWriter) -> None:
        self._segment.sync()
        self._note_durable_end()
        self.durable = Cursor(self.cursor.seq, self.cursor.offset)

    LogWriter.append = append
    LogWriter.sync = sync


@bug
def ignores_a_short_write() -> None:
    def write(self: files.LocalFile, parts: list[bytes]) -> None:
        os.writev(self._descriptor.number, parts)

    files.LocalFile.write = write


@bug
def does_not_check_the_headers_sum() -> None:
    def decode(data: bytes, at: int = 0) -> frame.FrameHeader:
        cut = data[at : at + frame.FRAME_HEADER_BYTES - 4]
        return sound(cut + frame.crc32c(cut).to_bytes(4, "little"))

    sound = frame.decode_frame_header
    segment_file.decode_frame_header = decode


@bug
def believes_any_length() -> None:
    limits = ("body_bytes_max", "raw_bytes_max")
    names = {**vars(frame), **dict.fromkeys(limits, lambda *sizes: 2**32)}
    believing = FunctionType(frame.decode_frame_header.__code__, names, None, (0,))
    frame.decode_frame_header = segment_file.decode_frame_header = believing


@bug
def does_not_check_the_bodys_sum() -> None:
    def prove(header: frame.FrameHeader, body: pa.Buffer) -> None:
        if len(body) < header.body_bytes:
            raise BadHeader("the body is cut short")

    segment_file.prove_body = prove


@bug
def skips_a_bad_frame() -> None:
    """Goes on at the next header that is sound, as if what lies between were nothing."""
    at = SegmentReader.header_at

    def header_at(self: SegmentReader, byte: int) -> frame.FrameHeader:
        try:
            return at(self, byte)
        except BadHeader:
            for header in self.headers_beyond(byte):
                return header
            raise

    SegmentReader.header_at = header_at


@bug
def trims_what_a_rebuild_needs() -> None:
    trimming._needed_from = lambda chain, last: chain.end.offset


@bug
def registers_while_a_trim_decides() -> None:
    consumers.consumers_locked = trimming.consumers_locked = nullcontext


@bug
def trims_by_acknowledgements_that_a_crash_can_take_back() -> None:
    """The names that a trim has read are not on disk when it publishes its own."""
    first = appendable_queue.AppendableQueue.trim

    def trim(self: appendable_queue.AppendableQueue, before: int | None = None) -> int:
        sync_names, calls = self.folder.sync_names, count()
        self.folder.sync_names = lambda: sync_names() if next(calls) else None
        try:
            return first(self, before)
        finally:
            del self.folder.sync_names

    appendable_queue.AppendableQueue.trim = trim


@bug
def acknowledges_input_before_its_output_is_on_disk() -> None:
    first = Runner.acknowledge

    def acknowledge(self: Runner) -> None:
        self.queue.sync = lambda: None
        try:
            first(self)
        finally:
            del self.queue.sync

    Runner.acknowledge = acknowledge


@bug
def acknowledges_what_a_join_reads_again() -> None:
    first = NeededInput.add_footprints
    NeededInput.add_footprints = lambda self, position, preload=None: first(self, position)


@bug
def trusts_the_index() -> None:
    stored.prove = lambda claim, chain: chain.frame_at(Address(claim.segment_id, claim.byte))
    timestamp.prove = stored.prove


@bug
def publishes_a_segment_that_is_not_on_disk() -> None:
    def publish(self: LogWriter) -> None:
        self.manifest = replace(self.manifest, newest_segment=self._segment.header.segment_id)
        writer.publish_manifest(self.folder, self.manifest)

    LogWriter.publish_segment = publish


@bug
def takes_handles_of_a_task_that_has_ended() -> None:
    provider.plant(
        "state/Instance.scala", "if (generation != generation_) throw", "if (false) throw"
    )


@bug
def loses_a_timer_that_is_moved_while_timers_expire() -> None:
    """A scan that shows what is there now, in place of what was there when it began."""
    provider.plant(
        "keys/OrderedIndex.scala",
        "case (number, old) if number > began => old",
        "case (_, _) => Absent",
    )


@bug
def tells_a_chunk_of_a_list_twice() -> None:
    """All of the last chunk in place of what has been appended to it."""
    provider.plant(
        "store/ChangeReader.scala", "if (said == 0) values else values.drop(said + 1)", "values"
    )


@bug
def reads_the_chunk_of_a_list_twice() -> None:
    """The first piece once more where a list begins to have several."""
    provider.plant(
        "state/ListChunks.scala",
        "putChunk(own, 1, 0, more)",
        "putChunk(own, 1, 0, joined(Seq(there, more)))",
    )


_PROVIDER = "store/CecStateStoreProvider.scala"
_STORE = "store/CecStateStore.scala"
_ZONES = "state/Zones.scala"
OF_DUE_ROWS = {
    "looks_for_rows_due_a_microsecond_too_early": (
        _STORE, "state.notAfter(time, boundUs,", "state.notAfter(time, boundUs - 1,"
    ),
    "looks_for_rows_due_a_microsecond_too_late": (
        _STORE, "state.notAfter(time, boundUs,", "state.notAfter(time, boundUs + 1,"
    ),
    "takes_the_hint_of_the_batch_before": (_PROVIDER, "hint.version == version", "true"),
    "takes_the_hint_of_another_operator": (
        "store/ScanHint.scala",
        's"cec.scan.$runId.$operatorId.$store"',
        's"cec.scan.$runId.${math.min(operatorId, 0)}.$store"',
    ),
    "does_not_lower_a_zone_for_a_late_row": (
        _ZONES,
        "math.min(in.leastTimes(row >> Bits), time.of(in, row))",
        "(if (in.leastTimes(row >> Bits) == Never) time.of(in, row) "
        "else in.leastTimes(row >> Bits))",
    ),
    "keeps_a_zone_after_a_version_is_taken_back": (
        "state/LiveState.scala", "if (zones != null) zones.lower(in, row)", "()"
    ),
    "raises_a_zone_by_the_scan_of_a_version_that_is_taken_back": (
        _ZONES, "read += in.id.toLong << 32 | zone", "(in.leastTimes(zone) = Never)"
    ),
    "takes_no_time_for_the_greatest": ("store/TimePlace.scala", "Zones.Least", "Zones.Never"),
}  # fmt: skip
"""In scans that a hint narrows. One compilation serves them all."""


_HINTS = "transforms/ScanHints.scala"
OF_HINTS = {
    "tells_of_rows_due_a_microsecond_too_early": (
        _HINTS, "Some((column, None, us))", "Some((column, None, us - 1))"
    ),
    "tells_of_rows_due_a_microsecond_too_late": (
        _HINTS, "Some((column, None, us))", "Some((column, None, us + 1))"
    ),
    "tells_of_due_rows_in_complete_mode": (
        _HINTS, "!node.outputMode.contains(OutputMode.Complete())", "true"
    ),
}  # fmt: skip
"""In the rule that writes these hints, in a Spark session. One compilation serves them as well."""


_LOCAL = "local/LocalSpace.scala"
OF_LOCAL_ROWS = {
    "lets_go_of_an_extent_that_others_hold": (
        "state/RowMemory.scala", "(1 until all.size).foreach(_ => extent.retain())", "()"
    ),
    "leaves_the_last_end_out": ("format/Rows.scala", "(count + 1) * 4L", "(count * 4L)"),
    "gives_out_room_that_is_taken": (
        _LOCAL, "free_.put(at + bytes, room - bytes)", "free_.put(at, room)"
    ),
    "loses_an_interrupt": (_LOCAL, "if (isInterrupted) Thread.currentThread.interrupt()", "()"),
    "keeps_the_room_of_a_state_that_another_one_has_replaced": (
        "store/InstancePool.scala", "try left.close() finally left.state.letGo()", "left.close()"
    ),
    "keeps_the_room_of_a_provider_that_is_closed": (
        "store/CecStateStoreProvider.scala",
        "if (replicas.isEmpty) kept.foreach(_.state.letGo())", "()",
    ),
    "keeps_the_ends_of_large_versions_in_the_heap": (
        "format/Rows.scala", "endBytes(keyEnds) + endBytes(valueEnds)", "0L"
    ),
}  # fmt: skip
"""In rows that the heap has no room for. One compilation serves them all."""


_RUN = "keys/KeyRun.scala"
_LOAD = "keys/RunLoad.scala"
OF_KEY_RUNS = {
    "keeps_the_entry_of_a_key_that_has_a_newer_row": (
        _RUN, "replaced(place >>> 6) |= 1L << place", "()"
    ),
    "merges_keys_that_were_deleted": (
        _RUN, "hash != KeyTable.Empty && counts(place)", "hash != KeyTable.Empty"
    ),
    "takes_a_key_of_the_same_hash_for_another": (
        _RUN, "rows.of(held).hasKey(held.toInt, key, from, length)", "true"
    ),
    "frees_a_run_that_a_scan_reads": (_RUN, "extent.retain()", "()"),
    "scans_a_key_in_the_run_and_above_it": (
        "keys/HashIndex.scala", "if (origin >= 0) inRun.wasReplaced(origin) else ~origin < number",
        "true",
    ),
    "loads_an_older_row_of_a_key_as_well": (_LOAD, "i == firsts", "i >= from"),
    "loads_keys_that_are_closed": (_LOAD, "reference > 0", "row >= 0"),
    "loses_entries_that_found_no_slot_of_their_part": (
        "keys/HashedRun.scala",
        "System.arraycopy(slots, slotsOfPart * width, slots, 0, "
        "slots.length - slotsOfPart * width)", "()",
    ),
    "overwrites_the_next_slot": (
        "keys/KeyRun.scala", "Platform.getLong(slots, at + KeyRun.HashBytes) & ~referenceMask", "0L"
    ),
    "orders_keys_by_four_bytes_alone": (
        "keys/KeyOrder.scala",
        "equal.foreach { case (start, end) => sort(start, end, common) }", "()",
    ),
    "takes_bytes_for_numbers_with_a_sign": (
        "keys/KeyOrder.scala", "rows.of(reference).keyWord(reference.toInt, common) << 32",
        "(rows.of(reference).keyWord(reference.toInt, common) ^ 0x80000000L) << 32",
    ),
    "goes_on_where_the_last_key_was": (
        "keys/OrderedIndex.scala", "if (known != structure) seek()", "()"
    ),
    "finds_no_key_that_begins_a_leaf": (
        "keys/OrderedIndex.scala",
        "Arrays.compareUnsigned(least, 0, least.length, key, from, from + length) <= 0",
        "Arrays.compareUnsigned(least, 0, least.length, key, from, from + length) < 0",
    ),
    "keeps_words_behind_bytes_that_a_leaf_has_no_more_in_common": (
        "keys/KeyLeaf.scala", "words(i) >>> 8 * more", "words(i)"
    ),
    "takes_a_look_alike_for_the_key_that_is_known_to_be_there": (
        "keys/KeyLeaf.scala", "isHere && end == first + 1", "isHere"
    ),
    "takes_words_of_two_leaves_for_those_of_one": (
        "keys/KeyLeaf.scala", "next.share(common)", "()"
    ),
    "leaves_moved_rows_where_they_were": (
        "keys/OrderedIndex.scala",
        "moves.foreach { case (leaf, at, reference) => leaf.references(at) = reference }", "()",
    ),
    "compares_local_keys_by_their_length": (
        "format/Rows.scala", "bytesInCommon(at, key, from, common)", "common"
    ),
    "takes_keys_of_one_hash_for_one_at_a_load": (
        _LOAD, "haveOneKey(sorted(i).toInt, row)", "true"
    ),
}  # fmt: skip
"""In the run of an index that the heap has no room for. One compilation serves them all."""


OF_DIRECTORIES = {
    "uses_a_directory_of_another_attempt": (
        "state/LiveFile.scala",
        "frame.segment.id == segment && frame.byte == byte && frame.runningCrc == runningCrc",
        "true",
    ),
    "believes_damaged_hashes": (
        "state/SealedFile.scala", "crc.getValue.toInt != seal.bodyCrc", "false"
    ),
    "believes_any_file_of_keys": (
        "state/KeyDirectories.scala", "file.seal != of.seal", "false"
    ),
    "goes_on_from_a_damaged_directory": (
        "state/KeyDirectories.scala", "name.seq <= last.header.seq && !bad.contains(name)",
        "name.seq <= last.header.seq",
    ),
    "has_the_hashes_of_other_frames": (
        "state/KeyDirectories.scala", "rows.size - keys.map(_.frames.size).sum", "0"
    ),
    "has_sorted_keys_of_the_rows_of_another_frame": (
        "state/SortedKeys.scala", "first + frame", "frame"
    ),
    "has_a_family_that_is_in_order_in_part": (
        "state/KeyDirectories.scala", "keys.forall(_.hasSorted(family))",
        "keys.exists(_.hasSorted(family))",
    ),
    "has_dead_rows_in_order": (
        "state/SortedKeys.scala", "number >= 0 && ofFrames(number).isLive(row)", "number >= 0"
    ),
    "has_the_live_rows_of_another_frame": (
        "state/LiveRows.scala", "BitSet.valueOf(bits).get(from, from + count)",
        "BitSet.valueOf(bits).get(0, count)",
    ),
    "has_the_time_of_one_of_two_zones": (
        "state/LiveRows.scala", "Zones.at(first) to Zones.at(last)",
        "Zones.at(first) to Zones.at(first)",
    ),
    "takes_one_of_the_keys_that_look_alike": (_RUN, "only != Nowhere", "false"),
    "takes_the_times_of_another_column": (
        "state/LiveState.scala", "timesOf != time.name", "timesOf == null"
    ),
    "goes_on_with_a_state_of_which_a_row_was_not_read": (
        "state/Instance.scala", "isLost_ || state.isBroken", "isLost_"
    ),
    "brings_a_block_to_the_place_of_another": (
        "log/LoggedBytes.scala", "room.write(table.images(block), image, image.length)",
        "room.write(0, image, image.length)",
    ),
    "leaves_segments_open_that_could_not_be_read": (
        "state/KeyDirectories.scala",
        "try held.foreach(_.bringAll()) finally held.take(1).foreach(_.closeInputs())",
        "if (held.forall(_.bringAll())) held.take(1).foreach(_.closeInputs())",
    ),
    "reads_all_keys_again_for_each_family": (
        "state/KeyDirectories.scala", "math.max(1, slotBytes.count(_ <= bytesMax))", "1"
    ),
}  # fmt: skip
"""In key directories, and in rows that come out of the log when they are asked for."""


def _one_of(bugs: Mapping[str, tuple[str, str, str]], name: str) -> Callable[[], None]:
    return lambda: provider.plant_one_of(bugs, name)


BUGS_OF_SCALA = (OF_DUE_ROWS, OF_HINTS, OF_LOCAL_ROWS, OF_KEY_RUNS, OF_DIRECTORIES)
BUGS |= {name: _one_of(bugs, name) for bugs in BUGS_OF_SCALA for name in bugs}
BUGS |= planted_in_commits.BUGS


@bug
def uses_a_replica_of_another_lineage() -> None:
    """Whatever stands at the right number is taken for the frame that the replica stands at."""
    provider.plant(
        "log/StateLog.scala",
        "Option.when(at.header.seq == seq && isThere(at))",
        "Option.when(at.header.seq == seq)",
    )


@bug
def takes_any_merged_frame_for_the_one_that_was_copied() -> None:
    provider.plant(
        "replicas/Replica.scala", "last.exists(_.isCopyOf(frame.header)) &&", "true || false &&"
    )


@bug
def keeps_the_rows_of_a_version_that_a_replica_goes_back_from() -> None:
    provider.plant("replicas/Replica.scala", "    whole.rollback()\n", "")


@bug
def drops_replicas_before_their_task_has_come_to_them() -> None:
    provider.plant(
        "replicas/ReplicaHost.scala", ".filter(isLeftOver).foreach(drop)", ".foreach(drop)"
    )


@bug
def goes_on_with_a_version_whose_write_failed() -> None:
    provider.plant("state/Instance.scala", "isLost_ = true; throw e", "throw e")


@bug
def gives_a_joins_state_back_while_it_is_written() -> None:
    provider.plant(
        "store/JoinStores.scala",
        "    task.addTaskCompletionListener[Unit](_ => one.await())\n",
        "",
    )


@bug
def uses_a_torn_replica() -> None:
    """Follows frame by frame where a version has several, and stays where a read broke off."""
    file = "replicas/Replica.scala"
    ends = "      if (frame.header.endsVersion) {\n"
    follows = "        whole.follow(version.toSeq)\n        version.clear()\n"
    provider.plant(file, ends + follows, follows + ends)
    provider.plant(file, "      state = null\n      val progress", "      val progress")
    throws = "case e: Throwable => throw e"
    provider.plant(file, "case e: Throwable => forget(); throw e", throws)


@bug
def takes_over_before_it_fences() -> None:
    """Stands where the log ended while the primary could still append."""
    complete = WarmState.complete

    def as_it_was(self: WarmState, chain: LogReader, checkpointer: Checkpointer) -> Restored:
        self._take_new = lambda replay=True: None  # type: ignore[method-assign]
        return complete(self, chain, checkpointer)

    WarmState.complete = as_it_was  # type: ignore[method-assign]


@bug
def trims_held_output_by_what_was_taken() -> None:
    """In place of what the primary has put out, durably."""
    take = Shadow._take

    def take_and_trim(self: Shadow, step: Step) -> None:
        take(self, step)
        self.held.trim(int(self._position.sum()))

    Shadow._take = take_and_trim  # type: ignore[method-assign]


def plant_what_is_asked_for() -> None:
    """Called once a test process, before any test."""
    name = os.environ.get(VARIABLE)
    if name:
        BUGS[name]()


@bug
def makes_folders_whose_names_are_not_on_disk() -> None:
    LocalFolder.make = lambda self: os.makedirs(self.path, 0o700, exist_ok=True)


@bug
def goes_on_after_an_unfinished_step() -> None:
    Runner._refuse_if_unfinished = lambda self: None


@bug
def loses_a_determinant() -> None:
    """The newest: the input of its step is not taken again."""
    first = operator_recovery.determinants_behind

    def lose(chain: LogReader, offset: int, begin: Ints) -> Determinants:
        found = first(chain, offset, begin)
        return replace(found, positions=found.positions[:-1], choices=found.choices[:-1])

    operator_recovery.determinants_behind = lose


@bug
def leaves_merged_windows_open() -> None:
    apply = Aggregate.apply
    Aggregate.apply = lambda self, step: replace(  # type: ignore[method-assign]
        apply(self, step), merged=None
    )


@bug
def writes_no_footprint_of_what_was_merged() -> None:
    apply = Aggregate.apply
    Aggregate.apply = lambda self, step: replace(  # type: ignore[method-assign]
        apply(self, step), grown=NO_SLOTS
    )


@bug
def tells_late_rows_by_the_newest_watermark() -> None:
    settle = SessionSlots._settle

    def settle_by_the_newest(self: SessionSlots) -> None:
        if not self._is_settled:
            self._marks[:] = self._marks[0]
        settle(self)

    SessionSlots._settle = settle_by_the_newest  # type: ignore[method-assign]


@bug
def takes_input_again_in_another_order() -> None:
    step = InputAgain.step
    InputAgain.step = lambda self, stop, runs: step(self, stop, runs and runs[::-1])


@bug
def lets_a_consumer_acknowledge_that_was_taken_over() -> None:
    Holding.check = lambda self: None
