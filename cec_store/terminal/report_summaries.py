"""A report in a sentence or two: what its page, and the terminal, say first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cec_store.connectors.spark.checkpoint.scans import Reads
from cec_store.inspector.measuring.crash_costs import DEFAULT
from cec_store.terminal.extent_screens import seconds
from cec_store.terminal.wording import counted, moment

Document = dict[str, Any]


def summary_of(document: Document) -> str:
    """Return the first sentences of a report's document, of any kind."""
    if document["kind"] == "cluster":
        return _cluster(document["totals"])
    if document["kind"] == "fleet":
        return _fleet(document)
    return _place(document)


# -- a place --------------------------------------------------------------------------------------


def _place(of: Document) -> str:
    restart = _restart(of)
    if not of["sound"]:
        faults, logs = counted(len(of["damage"]), "fault"), of["totals"]
        where = f" in {logs['damaged_logs']} of {logs['logs']} logs" if logs["logs"] > 1 else ""
        rest = f"; of the sound rest {_lower(restart)}" if restart else ""
        return f"Damaged: {faults}{where}{rest}.{_unchecked(of)}{_readers(of)}{_scans(of)}"
    if of["verified"]:
        health = "every byte was checked, and is sound"
    else:
        health = "no damage in what a restart needs; the other bytes were not checked"
    text = f"{restart}; {health}" if restart else health[0].upper() + health[1:]
    return f"{text}.{_readers(of)}{_scans(of)}"


def _scans(of: Document) -> str:
    """Name the operators of which each batch reads all rows."""
    scans = [scan for scan in of["scans"] if scan["reads"] == Reads.ALL]
    return "".join(
        f" Each batch reads all rows of operator {scan['operator']}"
        f"{scan['name'] and ' (' + scan['name'] + ')'}: {scan['why']}."
        for scan in scans
    )


def _restart(of: Document) -> str:
    """Empty where no operator keeps windows."""
    if not of["totals"]["open_windows"]:
        return ""
    restart = of["views"][0]["restart"]
    took_s, asked_s = restart["load_s"] + restart["replay_s"], of["recovery_time_s"]
    rates = of["rates"]
    is_guess = DEFAULT in (rates["source"], rates["fixed_source"])
    text = f"A restart takes about {seconds(took_s)} on {counted(restart['cores'], 'core')}"
    text += ", by a guess" if is_guess else ""
    if asked_s is not None:
        where = "within" if took_s <= asked_s else "more than"
        text += f", {where} the {asked_s:g} s asked for"
    if (last := of["last_restart"]) is not None:
        took = seconds(last["first_batch_s"])
        text += f" (the last one took at most {took} with its first batch and any outage in it)"
    return text


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _unchecked(of: Document) -> str:
    return (
        "" if of["verified"] is not None else " The bytes that no restart needs were not checked."
    )


def _readers(of: Document) -> str:
    """Return a sentence on a queue's consumer that is furthest behind; empty for state."""
    if of["kind"] in ("checkpoint", "state store"):
        return ""
    consumers = of["consumers"]
    if not consumers:
        return " No consumer is registered."
    who = counted(len(consumers), "consumer")
    last = max(consumers, key=lambda consumer: consumer["lag_records"])
    if not last["lag_records"]:
        return f" {who}, with nothing left to receive."
    furthest = "" if len(consumers) == 1 else ", the furthest behind"
    lag = counted(last["lag_records"], "record")
    return f" {who}: {last['name']}{furthest} has {lag} to receive."


# -- a cluster ------------------------------------------------------------------------------------


def _cluster(totals: Document) -> str:
    count, covered = totals["partitions"], totals["covered"]
    if not count:
        return "No query has opened state yet."
    if covered < count:
        bare = f"{count - covered:,} of {counted(count, 'partition')}"
        return (
            f"If an executor were lost now, {bare} would have to be loaded from the log: "
            "no warm replica."
        )
    lag = totals["lag_versions_max"]
    behind = f"the furthest is {counted(lag, 'version')} behind" if lag else "all lack nothing"
    every = "The one partition has" if count == 1 else f"All {count:,} partitions have"
    return f"{every} a warm replica, so an executor can be lost now: {behind}."


# -- a fleet --------------------------------------------------------------------------------------


def _fleet(of: Document) -> str:
    queries, count = of["queries"], len(of["queries"])
    if of["state"] == "going back":
        return "A rollback was begun and is not finished: the next start finishes it."
    if of["state"] == "stopped":
        if of["driver"].startswith("silent"):
            return f"Nobody drives the fleet: its driver is {of['driver']}. Its input waits."
        return "The fleet is stopped. Started again, it goes on where it was."
    running = sum(query["state"] == "running" for query in queries)
    if running == count:
        return "The one query runs." if count == 1 else f"All {count:,} queries run."
    text = f"{running:,} of {count:,} queries run."
    held = [query for query in queries if query["state"] == "held back"]
    if held:
        text += (
            f" {_named(held)} {'waits' if len(held) == 1 else 'wait'} for executors{_until(held)}."
        )
    if paused := [query for query in queries if query["state"] == "paused"]:
        text += f" {_named(paused)} {'is' if len(paused) == 1 else 'are'} paused."
    for query in queries:
        if query["state"] == "failing":
            text += f" {query['query']} has failed: {query['waits_for']}."
        elif query["state"] == "waiting":
            text += f" {query['query']} waits: {query['waits_for']}."
    return text


def _named(queries: Sequence[Document]) -> str:
    names = [query["query"] for query in queries]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _until(held: Sequence[Document]) -> str:
    expected = [item["expected_us"] for item in held]
    if any(item is None for item in expected):
        return "; none has come yet, so nobody knows until when"
    when = moment(max(expected) // 1_000_000 * 1_000_000)
    return (
        f", {'' if len(held) == 1 else 'the last of them '}until about {when} at the present rate"
    )
