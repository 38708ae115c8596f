"""Screens of `cec-store extent`: one log in full, many as a table with a line each."""

from __future__ import annotations

from cec_store.inspector.measuring.crash_costs import CALIBRATED, DEFAULT, REMEMBERED, LoadRates
from cec_store.inspector.measuring.extents import OperatorState
from cec_store.inspector.measuring.place_extents import LogExtent, Overview
from cec_store.state_logs.key_directories import DirectoryLead
from cec_store.terminal.built_in_screens import show_built_in
from cec_store.terminal.screens import Cell, Screen
from cec_store.terminal.wording import by_kind, counted, duration, moment, positions, size, value

_RATES = {
    DEFAULT: "a guess; --calibrate measures this machine",
    CALIBRATED: "measured on this machine just now",
    REMEMBERED: "measured on this machine by an earlier --calibrate",
}
_FAILS = "a restart fails before it has loaded all, because of the damage below"


def show_extent(screen: Screen, overview: Overview, rates: LoadRates, cores: int, top: int) -> None:
    """Totals, extents, what a crash costs, the oldest windows, and what other targets had given."""
    if overview.place.is_built_in:
        show_built_in(screen, overview)
        return
    if len(overview.logs) == 1:
        _show_log(screen, overview, overview.logs[0], rates)
    else:
        _show_logs(screen, overview, rates, cores)
    if (retention := overview.place.retention()) is not None:
        screen.line(f"retention: {retention}")
    states = [entry for entry in overview.logs if entry.state is not None]
    _show_last_restart(screen, overview)
    if states:
        _show_rates(screen, rates, any(entry.has_input for entry in states))
    _show_windows(screen, overview, rates, top)
    _show_what_if(screen, overview)
    for note in overview.notes:
        screen.line(f"note: {note}")
    for fault in overview.faults:
        screen.line(f"damaged: {fault}", "bold red")
    for entry in overview.logs:
        if entry.damage:
            screen.line(f"damaged: {entry.log.named(entry.damage)}", "bold red")


def seconds(value: float) -> str:
    """A length that is no more exact than an estimate can be."""
    if value >= 10:
        return f"{value:,.0f} s"
    if value >= 1:
        return f"{value:.1f} s"
    return f"{value * 1000:.0f} ms" if value >= 1e-3 else "< 1 ms"


def _show_log(screen: Screen, overview: Overview, entry: LogExtent, rates: LoadRates) -> None:
    report = entry.report
    if report is None:
        screen.line(entry.log.folder.path)
        return
    totals = report.totals
    rows = [
        ("segments", f"{totals.segments:,} ({size(totals.bytes)})"),
        ("frames", f"{totals.frames:,}"),
        ("records", f"{totals.records:,}"),
        ("offsets", f"{totals.first_offset:,} to {totals.end_offset:,}"),
        ("time", f"{moment(totals.first_timestamp_us)} to {moment(totals.last_timestamp_us)}"),
    ]
    if totals.kinds is not None:
        rows.append(("kinds", by_kind(totals.kinds) or "–"))
    if report.has_state and totals.write_amplification is not None:
        asked = "put or removal" if totals.is_state else "record of output"
        rows.append(
            ("write amplification", f"{totals.write_amplification:.2f} records for each {asked}")
        )
        rows.append(("written again", f"{totals.check_overhead or 0:.2f} for each other record"))
    if report.version is not None:
        rows.append(("version", f"{report.version:,}"))
    if totals.unreadable:
        rows.append(("unreadable", f"{totals.unreadable:,} places; see cec-store verify"))
    screen.pairs(report.path, rows)
    if report.state is not None:
        can_restart = overview.restart_cost(rates, 1) is not None
        _show_state(screen, entry, report.state, rates, can_restart)
    elif not report.has_state and not entry.damage:
        screen.line("no operator writes this queue, so it has no state and no extent")


def _show_state(
    screen: Screen, entry: LogExtent, state: OperatorState, rates: LoadRates, can_restart: bool
) -> None:
    extent = state.extent
    reach = (
        f"{extent.records:,} records in {counted(extent.frames, 'frame')}, "
        f"{size(extent.bytes)}, {counted(extent.segments, 'segment')}"
    )
    age = f"{moment(state.oldest_timestamp_us)}, {duration(state.age_us)} before the end"
    replay = [
        ("replay from", f"input {positions(state.replay_from)}"),
        ("replay", f"{state.replay_rows:,} rows, up to {positions(state.replay_upto)}"),
    ]
    cost = entry.crash_cost(rates)
    crash = f"{seconds(cost.load_s)} to load"
    crash += f", {seconds(cost.replay_s)} to replay" if entry.has_input else ""
    crash += _guess(rates)
    screen.pairs(
        "a restart would read back",
        [
            ("open windows", f"{extent.open_windows:,}"),
            ("extent", reach),
            ("target", _target(entry)),
            ("oldest record", age if state.oldest_timestamp_us is not None else "–"),
            *([("by key directory", _by(state.directory))] if state.directory else []),
            *(replay if entry.has_input else []),
            *([("a crash now costs", crash)] if can_restart else []),
        ],
    )
    if not can_restart:
        screen.line(_FAILS)


def _by(directory: DirectoryLead) -> str:
    return (
        f"of version {directory.version:,}: instead of the extent, {size(directory.stored_bytes)} "
        f"with {directory.records:,} records behind it"
    )


def _guess(rates: LoadRates) -> str:
    return ", by a guess" if rates.is_guess else ""


def _show_rates(screen: Screen, rates: LoadRates, has_input: bool) -> None:
    what = _RATES[rates.source]
    if rates.fixed_source != rates.source:
        what += f"; {seconds(rates.fixed_s)} to open a log: {_RATES[rates.fixed_source]}"
    if has_input and rates.source != DEFAULT:
        what += "; a replay at a default rate, as no log says how fast its operator is"
    screen.line(f"rates: {what}")


def _target(entry: LogExtent) -> str:
    """The log does not say what was set."""
    cost, most = entry.cost_records, entry.default_target
    met = "kept" if cost <= most else "passed"
    priced = "" if entry.has_input else f" ({cost:,} with 128 for each frame)"
    return f"not recorded; the default, {most:,} records, is {met}{priced}"


def _show_logs(screen: Screen, overview: Overview, rates: LoadRates, cores: int) -> None:
    title = f"{overview.place.path}: {overview.place.kind.value}"
    if overview.version is not None:
        title += f", version {overview.version:,}"
    if overview.timestamp_us is not None:
        title += f" (batch {overview.version - 1:,} of {moment(overview.timestamp_us)})"  # type: ignore[operator]
    names = ["log", "open windows", "extent", "frames", "size", "segments", "oldest record", "age",
             "load", "extent / windows"]  # fmt: skip
    rows: list[list[Cell]] = []
    for entry in overview.logs:
        name = entry.log.name
        state = entry.state
        if state is None:
            rows.append([name, *[None] * 7, "damaged" if entry.damage else None, None])
            continue
        extent = state.extent
        rows.append(
            [name, extent.open_windows, extent.records, extent.frames, size(extent.bytes),
             extent.segments, moment(state.oldest_timestamp_us), duration(state.age_us),
             seconds(entry.crash_cost(rates).load_s),
             f"{extent.records / extent.open_windows:.2f}" if extent.open_windows else None]
        )  # fmt: skip
    total = overview.totals(rates, cores)
    cost = overview.restart_cost(rates, cores)
    rows.append(
        ["all", total["open_windows"], total["extent_records"], total["extent_frames"],
         size(total["extent_bytes"]), total["extent_segments"], None, None,
         None if cost is None else seconds(cost.load_s), None]
    )  # fmt: skip
    screen.table(title, names, rows)
    if cost is not None:
        on = f"on {counted(cost.cores, 'core')}{_guess(rates)}"
        states = [entry.state for entry in overview.logs if entry.state is not None]
        led = sum(state.directory is not None for state in states)
        by = f"; {counted(led, 'log')} by key directory" if led else ""
        screen.line(f"a crash now costs {seconds(cost.load_s)} to load all, {on}{by}")
    elif not overview.is_sound:
        screen.line(_FAILS)


def _show_last_restart(screen: Screen, overview: Overview) -> None:
    last = overview.last_restart
    if last is None:
        return
    line = f"the last restart: batch {last.batch:,}, committed {moment(last.committed_us)}, "
    line += f"took at most {seconds(last.first_batch_s)} with its work and any outage in it"
    if last.later_batch_s is not None:
        line += f"; the batches since, {seconds(last.later_batch_s)}"
    screen.line(line)


def _show_windows(screen: Screen, overview: Overview, rates: LoadRates, top: int) -> None:
    is_many = len(overview.logs) > 1
    rows: list[list[Cell]] = []
    for entry, window in overview.oldest_windows(top):
        assert entry.state is not None
        freed = seconds(entry.state.freed_s(window, rates))
        rows.append(
            [*([entry.log.name] if is_many else []), value(window.key), window.kind, window.offset,
             positions(window.position), moment(window.timestamp_us), window.records_back,
             window.replay_rows, window.records_freed, freed]
        )  # fmt: skip
    if rows:
        position = "version" if overview.place.has_versions else "input"
        names = ["key", "record", "offset", position, "time", "extent from here",
                 "replay from here", "renewing frees", "saves"]  # fmt: skip
        title = "windows with the oldest records"
        screen.table(title, [*(["log"] if is_many else []), *names], rows)


def _show_what_if(screen: Screen, overview: Overview) -> None:
    outcomes = overview.what_if()
    if not outcomes:
        return
    rows: list[list[Cell]] = [
        [o.target, o.extent_records, o.extent_max, o.replay_rows, o.checks,
         f"{o.check_overhead:.3f}"]
        for o in outcomes
    ]  # fmt: skip
    title = "what other targets would have given"
    title += ", all logs together" if len(overview.logs) > 1 else ""
    names = ["target", "extent now", "extent at most", "replay now", "written again",
             "for each other record"]  # fmt: skip
    screen.table(title, names, rows)
