#!/usr/bin/env python3
"""Draws docs/pictures/dashboard.svg: the panels of examples/metrics/dashboard.json
with data of a real Prometheus, by its query_range. Grafana itself is in no
registry of this project, so the frame is ours and the queries are the file's.
usage: eval "$(make -s env)"; docs/pictures/dashboard.py [SECONDS]"""

import html
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

SPAN = int(sys.argv[1]) if len(sys.argv) > 1 else 90
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/metrics"
CLASSES = "abcd"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def query(port, expression, end):
    expression = expression.replace("$__rate_interval", "10s")
    args = urllib.parse.urlencode({"query": expression, "start": end - SPAN,
                                   "end": end, "step": 2})
    with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query_range?{args}") as answer:
        return json.load(answer)["data"]["result"]


def lines_of(port, panel, end):
    """Each line of a panel: its name and its points."""
    for target in panel["targets"]:
        for series in query(port, target["expr"], end):
            name = re.sub(r"{{(\w+)}}", lambda m: series["metric"].get(m[1], ""),
                          target["legendFormat"])
            yield name, [(t, float(v)) for t, v in series["values"]
                         if v != "NaN"]


def worth(lines):
    """Without lines that are zero all the time, where others are not."""
    lines = list(lines)
    return [line for line in lines if any(v for _, v in line[1])] or lines[:4]


def number(value, unit):
    if unit == "s":
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g}" + ("/s" if unit == "ops" else "")


def draw(panel, lines, end):
    x, y = panel["gridPos"]["x"] * 30 + 8, panel["gridPos"]["y"] * 20 + 8
    unit = panel["fieldConfig"]["defaults"]["unit"]
    most = max([v for _, points in lines for _, v in points] + [1e-9])
    yield f'<rect x="{x}" y="{y}" width="344" height="144" rx="4" class="box"/>'
    yield f'<text x="{x + 10}" y="{y + 20}" class="bold">{panel["title"]}</text>'
    yield (f'<text x="{x + 334}" y="{y + 20}" text-anchor="end">'
           f'{number(most, unit) if most > 1e-9 else "0"}</text>')
    for i, (name, points) in enumerate(lines):
        path = " ".join(f"{x + 10 + (t - end + SPAN) / SPAN * 324:.1f},"
                        f"{y + 114 - v / most * 82:.1f}" for t, v in points)
        yield f'<polyline points="{path}" class="{CLASSES[i % 4]}"/>'
        yield (f'<text x="{x + 10 + i * 84}" y="{y + 134}" class="{CLASSES[i % 4]}">'
               f'{html.escape(name)}</text>')


STYLE = """<style>text { font: 12px system-ui, sans-serif; fill: #24292f; }
.bold { font-weight: 600; } .box { fill: #f6f8fa; stroke: #d0d7de; }
polyline { fill: none; stroke-width: 1.6; }
polyline.a { stroke: #0969da; } polyline.b { stroke: #1a7f37; }
polyline.c { stroke: #9a6700; } polyline.d { stroke: #cf222e; }
text.a { fill: #0969da; } text.b { fill: #1a7f37; }
text.c { fill: #9a6700; } text.d { fill: #cf222e; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; }
.box { fill: #21262d; stroke: #484f58; } }</style>"""

with tempfile.TemporaryDirectory() as directory:
    port, started = free_port(), []
    url = f"file://{directory}/locks"
    try:
        shown = [free_port() for _ in range(3)]
        for one in shown:
            started.append(subprocess.Popen(
                ["lua5.4", EXAMPLE / "program.lua", str(one), url]))
        # Another program takes the lock for a while, again and again.
        started.append(subprocess.Popen(["sh", "-c", "while :; do dlock run "
            f"--url {url} work -- sleep 0.2; sleep 7; done"]))
        targets = json.dumps([f"127.0.0.1:{one}" for one in shown])
        config = pathlib.Path(directory, "prometheus.yml")
        config.write_text("global: { scrape_interval: 1s }\nscrape_configs:\n"
            "  - job_name: program\n    static_configs: [{ targets: "
            f"{targets} }}]\n")
        started.append(subprocess.Popen(
            ["prometheus", f"--config.file={config}", "--log.level=error",
             f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address=127.0.0.1:{port}"]))
        time.sleep(SPAN + 20)
        panels = json.loads((EXAMPLE / "dashboard.json").read_text())["panels"]
        end = time.time()
        shapes = [shape for panel in panels for shape in draw(
            panel, [(name.replace(url, "file://…"), points) for name, points
                    in worth(lines_of(port, panel, end))], end)]
    finally:
        for one in started:
            one.terminate()
            one.wait()

(ROOT / "docs/pictures/dashboard.svg").write_text(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 640" width="720"'
    ' height="640" role="img">\n<title>The dashboard of examples/metrics'
    "</title>\n" + STYLE + "\n" + "\n".join(shapes) + "\n</svg>\n")
