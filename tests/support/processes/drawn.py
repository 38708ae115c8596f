"""Whether a report is drawn in a browser: every plot painted, nothing wider than the screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.processes.chromium import Chromium

DESK, PHONE = (1280, 900), (360, 740)
UNFOLDED = """document.querySelectorAll("#deeper").forEach((each) => { each.open = true; }),
new Promise((done) => setTimeout(done, 100))"""
# Of each plot how many pixels between its axes have a colour that only data have.
PAINTED = """[...document.querySelectorAll("canvas")].map((canvas) => {
  const { left, top, width, height } = Chart.getChart(canvas).chartArea;
  const { data } = canvas.getContext("2d").getImageData(left, top, width, height);
  const style = getComputedStyle(document.documentElement);
  const colours = ["blue", "orange", "teal", "grey", "red"].map((name) => {
    const colour = style.getPropertyValue(`--${name}`).trim().slice(1);
    return [0, 2, 4].map((at) => parseInt(colour.slice(at, at + 2), 16)).join();
  });
  let count = 0;
  for (let at = 0; at < data.length; at += 4)
    count += data[at + 3] === 255 && colours.includes(data.slice(at, at + 3).join());
  return count;
})"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PAGES_WIDE = """[...document.querySelectorAll("figure")].filter((each) =>
  each.getBoundingClientRect().right > innerWidth).length"""


def check_drawn(tab: Chromium, page: Path, size: tuple[int, int], **how: Any) -> list[str]:
    """The plots' names, once each of them was found painted and nobody complained."""
    tab.open(page, *size, **how)
    tab.value(UNFOLDED)
    complaints = tab.complaints()
    assert complaints == [], complaints
    assert tab.requests() == [page.as_uri()], "the page and nothing else"
    assert tab.value("document.documentElement.dataset.errors") is None
    plots = tab.value("[...document.querySelectorAll('.plot')].map((e) => e.parentNode.id)")
    assert tab.value("document.documentElement.dataset.plots") == f"{len(plots)}/{len(plots)}"
    painted = tab.value(PAINTED)
    assert len(painted) == len(plots)
    for name, count in zip(plots, painted, strict=True):
        assert count >= 20, f"{name} shows nothing"
    assert tab.value(OVERFLOW) == 0
    assert tab.value(PAGES_WIDE) == 0
    return [str(name) for name in plots]
