"""The page of a run (`troupe monitor --web`) in Debian's Chromium, with fake hubs and with a real run. Run by ctest.

    page_test.py PROGRAM NAME...   runs the named checks, or all

Exit code 77: chromium or chromedriver is not installed.
"""

import contextlib
import http.server
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

import cli_test
from browser import ENTER, PATIENCE, TAB, browser, require_browser
from cli_test import refuses, wrong
from host_runs import SLOW
from monitor_test import run_folder, unix_server
from process_runs import ENDLESS, job, killed, replaced

CONTROL = "c0ffee"
RUN = {"version": 1, "id": "00112233445566aa", "name": "small", "program": "troupe 0.1.0", "command": ["troupe", "train"],
       "epoch": 1, "host": "kiwi", "steps": 300, "first_step": 0, "started_at": 1000, "sequence": 16, "global_batch_size": 4,
       "parameters": 1000, "precision": "fp32", "schedule": "1F1B",
       "layout": {"tensor": 1, "pipeline": 2, "data": 1, "replicas": 1, "processes": 2},
       "stages": [{"name": "stage:0.0", "replica": 0, "pipeline": 0, "tensor": 0, "process": 0},
                  {"name": "stage:0.1", "replica": 0, "pipeline": 1, "tensor": 0, "process": 1}],
       "commands": ["status", "pause", "resume", "learning_rate", "log_level", "eval_interval", "replace", "stop_after",
                    "norms"]}
HOSTILE = '<img src=x onerror="window.hit=1">'


def step(number, loss):
    return {"kind": "step", "iteration": number, "lm_loss": loss, "grad_norm": 1.0, "learning_rate": 6e-4,
            "elapsed_ms": 1000, "tokens_per_second": 500 + number, "teraflops_per_second": 0.25}


def process(number, **more):
    lanes = [{"who": f"lane:0.{number}", "state": "runs", "work": "0F0", "for_s": 0.1, "on": [], "step": 2},
             {"who": f"saver:0.{number}", "state": "idle", "work": "", "for_s": 9, "on": [f"stage:0.{number}"], "step": 0},
             {"who": f"wire:0.{number}", "state": "runs", "work": "0F0", "for_s": 0.1, "on": [], "step": 2},
             {"who": "loader", "state": "idle", "work": "", "for_s": 0.1, "on": [], "step": 2}]
    return {"kind": "process", "name": f"node-{number}", "role": "node", "host": "kiwi", "pid": 100 + number,
            "ranks": [number], "up_s": 10, "cpu_s": 5, "resident_bytes": 5_000_000, "peak_resident_bytes": 6_000_000,
            "memory": {"parameters": 4_000_000, "optimizer": 8_000_000, "working": 3_000_000, "batches": 1000,
                       "kept": 12_000_000, "idle": 2_000_000},
            "transfers": {"tickets": 3, "handed_bytes": 2000}, "queues": {f"stage:0.{number}": 4 + number},
            "sent": [{"peer": "stage:0.1", "messages": 3, "bytes": 2000}], "received": [], "leases": 0, "lanes": lanes,
            "energy_j": 1500, **more}


def member(who, state, number, why=""):
    return {"kind": "member", "who": who, "state": state, "generation": 1, "process": f"node-{number}", "why": why}


def past(record):
    """Returns a record as a successor of the supervisor tells it from the ledger: without its time."""
    return {**record, "at": None}


TIMELINE = {"kind": "timeline", "iteration": 2, "left_out": 7, "planned_ms": 8, "executed_ms": 10, "bubble": 0.3,
            "planned_bubble": 0.2,
            "rows": [{"rank": x, "executed": [["0F0", x, x + 2.5], ["0B0", 5, 9]],
                      "planned": [["0F0", x, x + 2], ["0B0", 4, 8]]} for x in (0, 1)]}
EXPERTS = {"most_expert_rows": 40, "least_expert_rows": 3, "expert_entropy": 0.75, "dropped_expert_rows": 2}
RECORDS = [step(1, 3.5) | EXPERTS, step(2, 3.25), {"kind": "validation", "iteration": 2, "validation_loss": 3.375},
           {"kind": "state", "state": "training", "iteration": 2, "generation": 2}, TIMELINE, process(0), process(1),
           {"kind": "keepers", "keepers": [{"of": "node-0", "by": "node-1"}, {"of": "node-1", "by": "node-0"}]},
           member("stage:0.0", "running", 0), member("stage:0.1", "running", 1), member("replica:0", "running", 0),
           member("loader:1", "running", 1)]


class played_hub:
    """A fake hub at a path. Its state has all records. Use it in `with`."""

    def __init__(self, path, run=RUN, records=RECORDS):
        self.path, self.run, self.records, self.commands = path, run, [], []
        self.changed, self.ended = threading.Condition(), False
        for one in records:
            self.push(one)

    def push(self, record):
        made = {"kind": record["kind"], "at": time.time(), **record}
        if made["at"] is None:
            del made["at"]
        with self.changed:
            self.records.append(made)
            self.changed.notify_all()

    def position(self, number):
        return f"{self.run['epoch']}:{number}"

    def __enter__(self):
        self.server = unix_server(str(self.path), handler_of(self))
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.path.unlink()


def handler_of(hub):
    class handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def answer(self, status, value):
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self):
            at = urllib.parse.urlsplit(self.path)
            with hub.changed:
                state = {"id": hub.run["id"], "epoch": hub.run["epoch"], "next": hub.position(len(hub.records)),
                         "records": [x for x in hub.records if x["kind"] != "dropped"]}
            if at.path == "/api/events":
                return self.stream(dict(urllib.parse.parse_qsl(at.query)).get("after", ""))
            answers = {"/api/run": hub.run, "/api/state": state}
            self.answer(200 if at.path in answers else 404, answers.get(at.path, {"error": {"message": "not here"}}))

        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Authorization") != f"Bearer {CONTROL}":
                return self.answer(403, {"error": {"message": "commands need the run's control token"}})
            command = json.loads(text)
            hub.commands.append(command)
            if command["command"] == "resume":
                return self.answer(409, {"error": {"message": f"the run is not paused {HOSTILE}"}})
            self.answer(200, {"message": f"done: {command['command']}"})

        def stream(self, after):
            epoch, _, number = after.partition(":")
            number = int(number) if epoch == str(hub.run["epoch"]) else 0
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.flush()
            while True:
                with hub.changed:
                    hub.changed.wait_for(lambda: hub.ended or number < len(hub.records), PATIENCE)
                    news = hub.records[number:]
                    if hub.ended:
                        return
                for one in news:
                    number += 1
                    self.wfile.write(f"id: {hub.position(number)}\nevent: {one['kind']}\ndata: {json.dumps(one)}\n\n".encode())
                self.wfile.flush()

    return handler


@contextlib.contextmanager
def served(run, *words, cwd=None):
    """Runs `troupe monitor RUN --web`, and yields the URL of the page."""
    program = subprocess.Popen([cli_test.PROGRAM, "monitor", str(run), "--web", *words], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, cwd=cwd)
    try:
        line = program.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+/#token=[0-9a-f]{32})\n$", line)
        if not found:
            raise wrong(f"--web prints {line!r}")
        yield found[1]
        program.send_signal(signal.SIGTERM)
        out, _ = program.communicate(timeout=PATIENCE)
        if program.returncode != 143 or out:
            raise wrong(f"after SIGTERM --web ends with {program.returncode}: {out}")
    finally:
        program.kill()
        program.communicate()


@contextlib.contextmanager
def opened(folder, **more):
    """Opens the page of a fake hub, and yields the browser and the hub."""
    with played_hub(run_folder(folder) / "sockets/hub", **more) as hub, served(folder / "run") as url, browser(folder) as page:
        page.open(url)
        page.until_text("steps_rows", "3.5000")
        yield page, hub


def require_text(page, name, *parts):
    text = page.text(name)
    if missing := [x for x in parts if x not in text]:
        raise wrong(f"'{name}' lacks {missing}: {text}")


def check_loads(folder):
    """The page shows the run, and each record as it arrives."""
    with opened(folder) as (page, hub):
        page.until_text("loss_text", "from 3.5000 at step 1 to 3.2500", "Newest validation: 3.3750 at step 2")
        page.until_text("busy_rows", "stage 0", "stage 1")
        page.until_text("members_rows", "host kiwi", "node-0", "pid 101", "stage:0.1", "lane:0.1 runs 0F0",
                        "loader idle", "states kept by node-0", "states kept by node-1", "4 messages", "5 messages",
                        "CPUs of the host used 1,500 J")
        names = page.run("return [...document.querySelectorAll('#members_rows th')].map((x) => x.textContent)")
        if names != ["host kiwi", "node-0, node, pid 100", "replica:0", "stage:0.0", "loader", "node-1, node, pid 101",
                     "replica 0", "stage:0.1", "loader:1"]:
            raise wrong(f"the tree of members is {names}")
        require_text(page, "members_rows", "lane:0.0 runs 0F0 (100 ms, step 2); wire:0.0 runs 0F0")
        if "saver" in page.text("members_rows"):
            raise wrong("the table of members shows lanes without work")
        page.until_text("memory_rows", "node-1", "3.0 MB", "12 MB")
        require_text(page, "memory_legend", "P: parameters", "O: optimizer", "K: kept states of other ranks", "I: idle")
        page.until_text("traffic_rows", "stage:0.1", "2.0 kB in 3 messages")
        require_text(page, "run_name", "small")
        require_text(page, "run_state", "training")
        require_text(page, "run_step", "step 2 of 300")
        require_text(page, "run_figures", "0.25 TFLOP/s", "3 to 40", "0.75")
        require_text(page, "pipeline_figures", "Bubble: 30 %", "planned 20 %", "7 executed actions left out")
        require_text(page, "run_facts", "1F1B", "kiwi", "fp32", "2, of supervisor 1")
        if "token" in page.run("return location.href") or page.run("return typeof Chart") != "function":
            raise wrong("the token stays in the address, or the drawing library is missing")
        if not page.run("const c = document.getElementById('loss_chart'); const all = c.getContext('2d')"
                        ".getImageData(0, 0, c.width, c.height).data; return all.some((x) => x !== 0)"):
            raise wrong("the loss has no curve")
        page.until("the colour of the points of the validation loss", """
            const chart = Chart.getChart("loss_chart");
            return chart.getDatasetMeta(2).data[0]?.options.backgroundColor === chart.data.datasets[2].borderColor""")

        hub.push(step(3, 2.875))
        page.until_text("steps_rows", "2.8750")
        page.until_text("run_step", "step 3 of 300")
        hub.push({"kind": "event", "event": "restart", "who": "node-1", "why": "killed", "iteration": 3, "seconds": 0.5})
        page.until_text("events_rows", "restart", "node-1: killed; recovered after 500 ms")
        page.until_text("announcer", "restart: node-1: killed")
        hub.push({"kind": "save", "iteration": 3, "state": "collected", "seconds": 0.5, "path": "/save"})
        hub.push({"kind": "save", "iteration": 3, "state": "written", "seconds": 2, "path": "/save"})
        hub.push({"kind": "warning", "severity": "warning", "text": "the clock jumped"})
        hub.push({"kind": "warning", "severity": "error", "process": "node-1", "text": "the disk is slow"})
        page.until_text("events_rows", "collected the snapshots of all ranks for step 3, after 500 ms",
                        "saved step 3 to /save, after 2.0 s", "warningthe clock jumped",
                        "errornode-1: the disk is slow")
        hub.push({"kind": "dropped", "count": 3})
        page.until_text("footer_text", "3 records dropped")
        hub.push({"kind": "state", "state": "paused", "iteration": 3})
        page.until_text("run_state", "paused")
        hub.push(process(1, lanes=[{"who": "lane:0.1", "state": "waits", "work": "0F0", "for_s": 40, "on": ["stage:0.0"]}]))
        hub.push({"kind": "state", "state": "training", "iteration": 3})
        page.until_text("trouble_list", "lane:0.1 in node-1 has waited 40 s for stage:0.0", "state 'runs'")
        hub.push(process(1, lanes=[
            {"who": "lane:0.1", "state": "waits", "work": "a tensor", "for_s": 41, "on": ["node-0"]},
            {"who": "stage:0.1", "state": "waits", "work": "work of its lanes", "for_s": 41, "on": ["lane:0.1"]}]))
        page.until_text("trouble_list", "lane:0.1 in node-1 has waited 41 s for node-0.",
                        "Cause: lane:0.1, which waits for node-0.")
        waits = page.run("return [...document.querySelectorAll('#members_rows tr')]"
                         ".find((x) => x.cells[0].textContent === 'stage:0.1').cells[7].textContent")
        if waits != "node-0":
            raise wrong(f"stage:0.1 waits for {waits!r}")
        hub.push({"kind": "event", "event": "straggler", "who": "stage:0.0, stage:0.1", "verdict": "link", "why": "a queue",
                  "iteration": 3})
        page.until_text("trouble_list", "stage:0.0, stage:0.1 are slow (link)", "step 3: a queue")
        hub.push({"kind": "norms", "iteration": 3, "gradients": {"a.weight": 0.5, "b.weight": None}})
        page.until_text("norms_rows", "a.weight", "not finite")
        hub.push(member("stage:0.1", "dead", 1, "killed by signal 9"))
        hub.push({"kind": "state", "state": "recovering", "iteration": 3})
        page.until_text("run_state", "recovering: stage:0.1 is dead")
        page.do("/refresh")
        page.until_text("steps_rows", "2.8750")  # the cookie has the token
        hub.push({"kind": "end", "exit_code": 0, "reason": "all steps are done"})
        page.until_text("run_state", "done")
        page.require_clean_console()


def check_hostile(folder):
    """The page shows HTML in names and texts of a run as text."""
    records = [*RECORDS, {"kind": "event", "event": HOSTILE, "who": HOSTILE, "why": HOSTILE, "iteration": 1},
               {"kind": "warning", "severity": HOSTILE, "process": HOSTILE, "text": HOSTILE},
               {"kind": "state", "state": HOSTILE, "iteration": 1, "generation": HOSTILE},
               {"kind": "keepers", "keepers": [{"of": HOSTILE, "by": HOSTILE}, None]},
               {"kind": "command", "name": HOSTILE, "step": 1, "by": HOSTILE, "arguments": {HOSTILE: HOSTILE}},
               {"kind": "norms", "iteration": 1, "gradients": {HOSTILE: 1}}, member(HOSTILE, HOSTILE, 1, HOSTILE),
               process(1, name=HOSTILE, host=HOSTILE, role=HOSTILE, pid=HOSTILE, memory={HOSTILE: 100},
                       transfers={HOSTILE: 1}, queues={f"stage:{HOSTILE}": 1, "__proto__": 1},
                       sent=[{"peer": HOSTILE, "messages": 1, "bytes": 1}], devices=[{"device": 0, "name": HOSTILE}],
                       lanes=[{"who": f"lane:{HOSTILE}", "state": "waits", "work": HOSTILE, "on": [HOSTILE], "for_s": 99}]),
               {**TIMELINE, "rows": [{"rank": HOSTILE, "executed": [[HOSTILE, 0, 9]], "planned": []}]},
               {"kind": "__proto__"}, {"kind": "constructor", "iteration": 1}]
    run = {**RUN, "name": HOSTILE, "host": HOSTILE, "command": [HOSTILE], "program": HOSTILE, "schedule": HOSTILE,
           "layout": {HOSTILE: 2}, "commands": ["status", HOSTILE], "stages": [{"name": f"stage:{HOSTILE}", "process": 0}]}
    with opened(folder, run=run, records=records) as (page, _):
        for name in ["run_name", "run_state", "run_facts", "events_rows", "members_rows", "memory_rows", "traffic_rows",
                     "transfers_rows", "norms_rows", "trouble_list", "footer_text"]:
            page.until_text(name, HOSTILE)
        page.click("control_open")
        page.type("control_input", CONTROL + ENTER)
        page.until_text("control_commands", HOSTILE)
        if page.run("return window.hit !== undefined || document.images.length > 0"):
            raise wrong("a name of the run became an element of the page")
        page.require_clean_console()


def overflow(page):
    """Elements that are wider than the screen, without those inside a scrolling area."""
    return page.run("""
        document.querySelectorAll("details").forEach((x) => x.open = true);
        const wide = document.documentElement.scrollWidth;
        if (wide <= window.innerWidth) return [];
        return [`${wide} px`, ...[...document.querySelectorAll("body *")].filter((x) => !x.closest(".scroll *, .unseen, .skip")
          && x.getBoundingClientRect().right > window.innerWidth + 1).map((x) => `${x.tagName} ${x.id} ${x.className}`)];""")


def check_narrow(folder):
    """The page needs no horizontal scrolling, also on a phone, and has readable colours in both colour schemes."""
    run = {**RUN, "name": "a_name_without_any_blank_" * 5, "command": ["x" * 300]}
    with opened(folder, run=run) as (page, hub):
        hub.push({"kind": "warning", "text": "w" * 400})
        hub.push({"kind": "event", "event": "straggler", "who": "s" * 400, "why": "slow", "verdict": "compute",
                  "iteration": 2})
        page.until_text("events_rows", "www")
        page.until_text("trouble_list", "sss")
        page.click("control_open")
        page.type("control_input", CONTROL + ENTER)
        page.until_text("control_commands", "Pause")
        backs = []
        for scheme in ("light", "dark"):
            for width in (360, 800, 1280):
                page.show_at(width, scheme)
                page.until(f"a width of {width} px", "return window.innerWidth === arguments[0]", width)
                time.sleep(1.2)  # the parts of the page are drawn once a second
                if found := overflow(page):
                    raise wrong(f"{width} px, {scheme}: the page is wider than its screen: {found}")
            colours = page.run("""
                const of = (selector, name) =>
                  getComputedStyle(document.querySelector(selector))[name].match(/[\\d.]+/g).map(Number);
                return [of("body", "backgroundColor"), of(".card", "backgroundColor"), of("body", "color"), of(".note", "color"),
                        of("#run_state", "color")];""")
            backs.append(colours[0])
            for text in colours[2:]:
                if (ratio := min(contrast(text, back) for back in colours[:2])) < 4.5:  # WCAG 2.2, 1.4.3
                    raise wrong(f"{scheme}: a contrast of {ratio:.1f} between {text} and {colours[:2]}")
        if luminance(backs[0]) < 0.5 or luminance(backs[1]) > 0.2:
            raise wrong(f"the colours do not follow the system: {backs}")
        page.require_clean_console()


def luminance(colour):
    parts = [x / 255 / 12.92 if x / 255 <= 0.03928 else ((x / 255 + 0.055) / 1.055) ** 2.4 for x in colour[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    low, high = sorted(luminance(x) + 0.05 for x in (one, other))
    return high / low


CONTROLS = "a[href], button, select, input, summary, [tabindex='0']"


def check_keyboard(folder):
    """The tab key reaches each control, each control has an accessible name, and the keyboard can send commands."""
    with opened(folder) as (page, hub):
        page.click("control_open")
        page.type("control_input", CONTROL + ENTER)
        page.until_text("control_commands", "Pause")
        page.run("document.querySelectorAll('details').forEach((x) => x.open = true); document.activeElement.blur(); "
                 "window.scrollTo(0, 0); const r = document.createRange(); r.setStart(document.body, 0); "
                 "getSelection().removeAllRanges(); getSelection().addRange(r)")
        controls = page.elements(CONTROLS)
        for one in controls:
            if not page.name_of(one).strip():
                raise wrong(f"no name for a screen reader: {page.run('return arguments[0].outerHTML', one)[:300]}")
        page.run("window.reached = new Set(); document.addEventListener('focusin', (e) => window.reached.add(e.target))")
        for _ in range(2 * len(controls) + 5):
            page.press(TAB)
        missed = page.run("return [...document.querySelectorAll(arguments[0])].filter((x) => x.checkVisibility() "
                          "&& !window.reached.has(x)).map((x) => x.outerHTML.slice(0, 200))", CONTROLS)
        if missed:
            raise wrong(f"the tab key does not reach {missed}")
        page.run("[...document.querySelectorAll('#control_commands button')].find((x) => x.textContent === 'Pause').focus()")
        page.press(ENTER)
        page.until_text("control_commands", "done: pause")
        if hub.commands[-1] != {"command": "pause"}:
            raise wrong(f"the run got {hub.commands}")
        headings = page.run("return [...document.querySelectorAll('section')].filter((x) => x.checkVisibility() "
                            "&& !x.querySelector('h2')).length + document.querySelectorAll('h1').length")
        if headings != 1:
            raise wrong("a section has no heading, or the page has not one title")
        page.require_clean_console()


def check_commands(folder):
    """Buttons send the commands with their arguments, and show the answers."""
    with opened(folder) as (page, hub):
        def send(label, *values):
            page.run("""
                const form = [...document.querySelectorAll("#control_commands form")]
                  .find((x) => x.querySelector("button").textContent === arguments[0]);
                form.querySelector("output").textContent = "";
                [...form.querySelectorAll("input, select")].forEach((x, i) => x.value = arguments[1][i]);
                window.confirm = (text) => { window.asked = text; return window.agrees !== false; };
                window.sent_form = form;
                form.requestSubmit();""", label, list(values))
            return page.until(f"an answer to {label}", "const t = window.sent_form.querySelector('output').textContent; "
                                                       "return t !== '' && !t.startsWith('Sent') && t")

        page.click("control_open")
        page.type("control_input", "wrong" + ENTER)
        page.until_text("control_answer", "commands need the run's control token")
        page.run("document.getElementById('control_input').value = ''")
        page.type("control_input", CONTROL + ENTER)
        page.until("the panel of commands", "return !document.getElementById('control_panel').hidden")
        wanted = []
        for label, values, command in [
                ("Pause", [], {"command": "pause"}),
                ("Set learning rate", ["1e-4"], {"command": "learning_rate", "rate": 1e-4}),
                ("Set log level", ["warning"], {"command": "log_level", "level": "warning"}),
                ("Set interval of evaluation", ["0"], {"command": "eval_interval", "steps": 0}),
                ("Replace a worker", ["node-1"], {"command": "replace", "worker": "node-1"}),
                ("Replace a worker", ["stage:0.1"], {"command": "replace", "worker": "stage:0.1"}),
                ("Stop after a step", ["7"], {"command": "stop_after", "step": 7}),
                ("Report gradient norms", ["", "2"], {"command": "norms", "of": "", "steps": 2})]:
            wanted.append(command)
            if (said := send(label, *values)) != f"done: {command['command']}":
                raise wrong(f"'{label}' is answered with {said!r}")
        if [x for x in hub.commands if x["command"] != "status"] != wanted:
            raise wrong(f"the run got {hub.commands}")
        if "after step 7" not in page.run("return window.asked"):
            raise wrong("the page does not ask before it stops a run")
        if "the run is not paused" not in send("Resume"):
            raise wrong("a refusal is not shown")
        page.run("window.agrees = false")
        if send("Stop after a step", "8") != "Not sent." or hub.commands[-1]["command"] != "resume":
            raise wrong(f"the page sends a command that was not confirmed: {hub.commands}")
        page.click("control_forget")
        if not page.run("return document.getElementById('control_panel').hidden"):
            raise wrong("the commands stay after the token is forgotten")
        if page.run("return document.cookie + JSON.stringify(sessionStorage) + JSON.stringify(localStorage)").count(CONTROL):
            raise wrong("the browser keeps the control token")
        page.require_clean_console()


def check_lost(folder):
    """The page reports a lost connection and reconnects, also to a successor of the supervisor or to another run."""
    path = run_folder(folder) / "sockets/hub"
    paused = {"kind": "command", "name": "pause", "step": 3, "by": "local", "arguments": {}}
    written = {"kind": "save", "iteration": 2, "state": "written"}
    with served(folder / "run") as url, browser(folder) as page:
        with played_hub(path, RUN, [*RECORDS, paused, {**written, "seconds": 1, "path": "/save"}]):
            page.open(url)
            page.until_text("steps_rows", "3.2500")
            page.until_text("events_rows", "pause, by local", "saved step 2 to /save")
        page.until_text("banner", "Connection lost")
        page.until_text("run_state", "no connection")
        require_text(page, "steps_rows", "3.2500")
        # A successor has the facts of the ledger, and reports keepers only if they change.
        before = [past(x) for x in (*RECORDS[:3], paused, written)]
        now = [x for x in RECORDS[3:] if x["kind"] != "keepers"]
        told = {"kind": "event", "event": "restart", "who": "supervisor", "why": "killed", "iteration": 2, "seconds": 1}
        with played_hub(path, {**RUN, "epoch": 2}, [*before, *now, told, step(3, 2.75)]) as hub:
            page.until_text("steps_rows", "2.7500", "3.5000")
            page.until_text("run_state", "training")
            if page.text("banner"):
                raise wrong(f"the page still reports a lost connection: {page.text('banner')}")
            hub.push(step(4, 2.625))
            page.until_text("steps_rows", "2.6250")
            page.until_text("events_rows", "supervisor: killed")
            page.until_text("members_rows", "states kept by node-1")
        page.until_text("banner", "Connection lost")
        before += [past(told), past(step(3, 2.75)), past(step(4, 2.625))]
        with played_hub(path, {**RUN, "epoch": 3}, [*before, *now]) as hub:
            page.until("the connection", "return !document.getElementById('banner').classList.contains('shown')")
            for text in ("supervisor: killed", "pause, by local", "saved step 2"):
                if page.text("events_rows").count(text) != 1:
                    raise wrong(f"a fact of the ledger is shown twice, or not: {page.text('events_rows')}")
            hub.push({"kind": "end", "exit_code": 1, "reason": "stopped"})
            page.until_text("run_state", "ended with exit code 1")
        page.until_text("banner", "The run has ended")
        # Begins with the same epoch, and has one stage.
        other = {**RUN, "id": "ffff", "name": "next", "program": "troupe 0.1.0 (commit 12, GCC)", "layout": {"pipeline": 1}}
        with played_hub(path, other, [step(1, 9.5), *(x for x in RECORDS[3:] if x["kind"] != "timeline")]) as hub:
            page.until_text("run_name", "next")
            page.until_text("steps_rows", "9.5000")
            page.until_text("footer_text", "troupe 0.1.0, run ffff.")
            page.until_text("pipeline_figures", "No timed step yet.")
            hub.push(step(2, 9.25))
            page.until_text("steps_rows", "9.2500")
            if "3.2500" in page.text("steps_rows") or page.run("return document.getElementById('banner').textContent"):
                raise wrong(f"the page still shows parts of the previous run:\n{page.shown()}")
        page.require_clean_console()


def check_token(folder):
    """Without the token the page asks for it, and shows nothing of the run."""
    with played_hub(run_folder(folder) / "sockets/hub"), served(folder / "run") as url, browser(folder) as page:
        address, token = url.split("#token=")
        page.open(address)
        page.until_text("token_answer", "needs its token")
        page.type("token_input", "0" * 32 + ENTER)
        page.until("an empty field for the token", "return document.getElementById('token_input').value === ''")
        page.until_text("token_answer", "needs its token")  # replaces "Checking the token."
        if RUN["host"] in page.shown() or page.text("steps_rows") or RUN["name"] in page.text("run_name"):
            raise wrong(f"the page shows parts of the run:\n{page.shown()}")
        page.type("token_input", token + ENTER)
        page.until_text("steps_rows", "3.5000")
        if page.run("return !document.getElementById('token_section').hidden"):
            raise wrong("the page asks for a token that it has")
    refuses("open to other hosts", "monitor", folder / "run", "--web", "--listen", "0.0.0.0:0")
    refuses("give --web", "monitor", folder / "run", "--listen", "127.0.0.1:0")
    refuses("leave out --once", "monitor", folder / "run", "--web", "--once")


def check_live(folder):
    """A real run: the page shows its steps, the death and restart of a process, and the next run in its folder."""
    one = job(folder, *ENDLESS, *SLOW)
    one.reaches(3)
    # By a relative path, so that the command line of the viewer is not that of a process of the run.
    with served("run", cwd=one.folder) as url, browser(folder) as page:
        page.open(url)
        page.until_text("run_state", "training")
        page.until_text("members_rows", "stage:0.1", "node-1")
        page.until_text("busy_rows", "stage 0")
        newest = "return Number(document.querySelector('#steps_rows th')?.textContent.replaceAll(',', ''))"
        first = page.until("a step", newest)
        shown = {int(x[0].replace(",", "")): x[1] for x in page.run(
            "return [...document.querySelectorAll('#steps_rows tr')].map((x) => "
            "[x.cells[0].textContent, x.cells[1].textContent])")}
        logged = {x["iteration"]: f"{x['lm_loss']:.4f}" for x in one.steps()}
        if not shown or any(logged.get(n) != loss for n, loss in shown.items()):
            raise wrong(f"the page shows {shown}, the log has {logged}")
        page.until("later steps", f"{newest} > arguments[0]", first)

        old = killed(one, 1)
        page.until_text("events_rows", "dead", "restart")
        replaced(one, 1, old)
        new = one.node(1)
        page.until_text("members_rows", f"pid {new['pid']}")
        page.until("the stages run again", """
            const rows = [...document.querySelectorAll("#members_rows tr.stage")].map((x) => x.cells[1].textContent);
            return rows.length === 4 && rows.every((x) => x === "running")""")
        page.until_text("run_state", "training")
        page.until("steps after the death", f"{newest} > arguments[0]", max(x["iteration"] for x in one.steps()))

        one.process.terminate()
        one.ends()
        page.until_text("run_state", "done")
        one.start()
        page.until("the next run", f"return document.getElementById('run_state').textContent === 'training' && {newest[7:]} > 0")
        page.require_clean_console()
        one.process.terminate()
        one.ends()


if __name__ == "__main__":
    require_browser()
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
