"""`troupe monitor` and `troupe ctl`, with hubs that this script plays. Run by ctest.

    monitor_test.py PROGRAM NAME...   runs the named checks, or all
"""

import contextlib
import fcntl
import http.server
import json
import os
import pathlib
import pty
import select
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import termios
import threading
import time

import cli_test
from cli_test import MOCK, SMALL, refuses, run, works, wrong
from run_test import PATIENCE, until

RUN = {"id": "00112233445566aa", "name": "small", "program": "troupe 0.1.0", "epoch": 1, "host": "kiwi", "steps": 300,
       "first_step": 0, "started_at": 1000, "layout": {"pipeline": 2}, "stages": [], "commands": []}
STEP = {"kind": "step", "at": 1100, "iteration": 100, "lm_loss": 3.25, "grad_norm": 1.0, "learning_rate": 6e-4,
        "elapsed_ms": 1000, "tokens_per_second": 512}
RECORDS = [STEP, {"kind": "state", "at": 1100, "state": "training", "iteration": 100},
           {"kind": "process", "at": 1100, "name": "node-0", "role": "node", "host": "kiwi", "pid": 17, "lanes": []},
           {"kind": "member", "at": 1100, "who": "stage:0.1", "state": "running", "process": "node-0", "why": ""},
           {"kind": "event", "at": 1050, "event": "restart", "who": "node-1", "why": "killed by \x1b[31msignal 9"}]
STATE = {"id": RUN["id"], "epoch": 1, "next": "1:5", "records": RECORDS}
END = {"kind": "end", "at": 1200, "exit_code": 0, "reason": ""}


class unix_server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@contextlib.contextmanager
def hub(at, answers=None, lines=(), token=None, posted=None, late=None):
    """A fake hub at a path or a port of this host. `answers`: (status, text) by path. Sends a line that is a text as it
    is, and keeps the stream open after the lines. Adds (path, token, value) of each POST to `posted`, and answers it
    after the event `late`, if given. Yields the address and the function that ends the streams."""
    ended = threading.Event()
    answers = {"/api/run": (200, json.dumps(RUN)), "/api/state": (200, json.dumps(STATE)), **(answers or {})}

    class handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                return self.answer(401, json.dumps({"error": {"message": "viewers need the run's token"}}))
            path = self.path.split("?")[0]
            if path == "/api/lines":
                return self.stream()
            self.answer(*answers.get(path, (404, "not here")))

        def do_POST(self):
            value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posted.append((self.path, self.headers.get("Authorization"), value))
            if late:
                late.wait(PATIENCE)
            self.answer(*answers.get(self.path, (200, json.dumps({"message": "paused after step 101"}))))

        def answer(self, status, text):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def stream(self):
            self.send_response(200)
            self.end_headers()
            for line in lines:
                self.wfile.write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
            ended.wait(PATIENCE)

    if isinstance(at, pathlib.Path):
        server = unix_server(str(at), handler)
    else:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}" if at is None else str(at), ended.set
    finally:
        ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def run_folder(folder, ended=None):
    """The folder of a run with this process as its supervisor, or of an ended run."""
    path = folder / "run"
    for one in [path, path / "processes", path / "sockets", path / "logs"]:
        one.mkdir(mode=0o700)
    record = {"version": 1, "id": RUN["id"], "program": "troupe 0.1.0", "command": ["troupe", "train", "gpt"],
              "started": "2026-11-25T10:00:00Z"}
    (path / "run.json").write_text(json.dumps({**record, **({"ended": ended} if ended else {})}))
    stat = pathlib.Path("/proc/self/stat").read_text()
    entry = {"pid": os.getpid(), "start_time": int(stat.rpartition(")")[2].split()[19]), "host": socket.gethostname(),
             "role": "supervisor", "roles": ["supervisor"], "ranks": [], "incarnation": 1, "generation": 1, "step": 7}
    if not ended:
        (path / "processes/supervisor.json").write_text(json.dumps(entry))
    return path


def check_once(folder):
    """--once prints one page, and with --json one object."""
    path = run_folder(folder)
    with hub(path / "sockets/hub"):
        page = works("monitor", "--run", path, "--once")
        lines = page.splitlines()
        if len(lines) > 24 or max(map(len, lines)) > 80 or "\x1b" in page:
            raise wrong(f"the page is larger than 80 x 24, or has control characters:\n{page}")
        for part in ["troupe small", "training", "100/300", "loss 3.2500", "512 tokens/s", "node-0", "restart"]:
            if part not in page:
                raise wrong(f"the page lacks '{part}':\n{page}")
        if "q quit" in page:
            raise wrong(f"a printed page has keys:\n{page}")
        members = works("monitor", path, "--once", "--page", "members")
        if not all(x in members for x in ["kiwi", "  node-0", "    stage:0.1      running"]):
            raise wrong(f"the tree of members is incomplete:\n{members}")
        if not works("monitor", path, "--once", "--no-unicode").isascii():
            raise wrong("--no-unicode prints other characters")
        told = json.loads(works("monitor", path, "--once", "--json"))
        if told != {"run": RUN, "state": "running", "next": "1:5", "records": RECORDS}:
            raise wrong(f"--json --once prints {told}")


def line_of(program, what, holds):
    """The first line of a program's output for which `holds` is true, as a value."""
    timer = threading.Timer(PATIENCE, program.kill)
    timer.start()
    try:
        for text in iter(program.stdout.readline, ""):
            line = json.loads(text)
            if holds(line):
                return line
    finally:
        timer.cancel()
    raise wrong(f"the program ended before {what}, or did not print it within {PATIENCE} s")


def check_json(folder):
    """--json prints the run, its state and its records until the run ends, and reconnects."""
    path = run_folder(folder)
    later = {**STEP, "iteration": 101}
    with hub(path / "sockets/hub", lines=[later, END]):
        out = [json.loads(x) for x in works("monitor", path, "--json").splitlines()]
    if out != [{"kind": "run", **RUN}, *RECORDS, later, END]:
        raise wrong(f"--json prints {out}")
    (path / "sockets/hub").unlink()
    with hub(path / "sockets/hub", lines=[later]) as (_, end):
        program = subprocess.Popen([cli_test.PROGRAM, "monitor", str(path), "--json"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        line_of(program, "a later step", lambda x: x == later)
        end()
    (path / "sockets/hub").unlink()
    with hub(path / "sockets/hub", answers={"/api/run": (200, json.dumps({**RUN, "epoch": 2})),
                                            "/api/state": (200, json.dumps({**STATE, "epoch": 2, "next": "2:0",
                                                                            "records": []}))},
             lines=[END]):
        out, err = program.communicate(timeout=PATIENCE)
    records = [json.loads(x) for x in out.splitlines()]
    if program.returncode != 0 or records != [{"kind": "run", **RUN, "epoch": 2}, END]:
        raise wrong(f"after a successor --json prints {records}: exit code {program.returncode}: {err}")
    if "lost the run, reconnecting" not in err:
        raise wrong(f"a lost connection is not reported: {err}")
    (path / "sockets/hub").unlink()
    # Lines of a broken hub. JSON may have tabs between its values.
    with hub(path / "sockets/hub", answers={"/api/state": (200, json.dumps({**STATE, "records": [7, STEP]}))},
             lines=["nonsense", "[1]", '"\x1b[31m"', '{"kind":"new",\t"text":"\\u001b\\"\u009b\x7f"}', END]):
        code, out, err = run("monitor", path, "--json")
        once = json.loads(works("monitor", path, "--json", "--once"))
    records = [json.loads(x) for x in out.splitlines()]
    if code != 0 or records != [{"kind": "run", **RUN}, STEP, {"kind": "new", "text": '\x1b"\u009b\x7f'}, END]:
        raise wrong(f"from a broken hub --json prints {records}: exit code {code}: {err}")
    if any(ord(x) < 32 and x != "\n" or 127 <= ord(x) < 160 for x in out):
        raise wrong(f"--json prints control characters: {out!r}")
    if "left out 4 lines" not in err:
        raise wrong(f"lines that are left out are not counted: {err}")
    if once["records"] != [STEP]:
        raise wrong(f"--json --once prints {once['records']}")
    died = {"kind": "end", "at": 1200, "exit_code": None, "reason": "no process is left"}
    (path / "sockets/hub").unlink()
    with hub(path / "sockets/hub", lines=[died]):
        code, out, err = run("monitor", path, "--json")
    if code != 0 or json.loads(out.splitlines()[-1]) != died or "the run died: no process is left" not in err:
        raise wrong(f"the end of a run that died: exit code {code}, {out.splitlines()[-1:]}: {err}")


def check_ended(folder):
    """The last state of a run that has ended or died comes from its folder, with exit code 0."""
    end = {"exit_code": 2, "reason": "the disk is full", "at": "2026-11-25T11:00:00Z"}
    path = run_folder(folder, end)
    for more in [[], ["--once"]]:
        page = works("monitor", path, *more)
        if "the run has ended at 2026-11-25T11:00:00Z with exit code 2: the disk is full" not in page:
            raise wrong(f"the page does not say how the run ended:\n{page}")
    told = json.loads(works("monitor", path, "--once", "--json"))
    if told["state"] != "ended" or told["records"] != [{"kind": "end", "exit_code": 2, "reason": "the disk is full"}]:
        raise wrong(f"--json --once prints {told}")
    (folder / "died").mkdir()
    path = run_folder(folder / "died", {})
    (path / "processes/supervisor.json").unlink()
    if "the run died" not in works("monitor", path):
        raise wrong("the page does not say that the run died")
    path = folder / "trained"
    works("train", "gpt", *SMALL, *MOCK, "--run", path)
    page = works("monitor", path)
    if "6 of 6, loss " not in page or "with exit code 0" not in page:
        raise wrong(f"the page of a run that has ended:\n{page}")


def check_refusals(folder):
    """Each wrong word is refused with a remedy."""
    refuses("the run is missing", "monitor")
    refuses("is not a folder and has no port", "monitor", "localhost")
    refuses("has no port from 1 to 65535", "monitor", "localhost:99999")
    refuses("without a path", "monitor", "http://localhost:7000/api?token=x")
    refuses("as the folder of a run", "monitor", "--run", folder / "gone")
    refuses("are for HOST:PORT", "monitor", "--run", folder, "--token-file", "x")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # does not listen
        refuses("compare host and port", "monitor", f"127.0.0.1:{taken.getsockname()[1]}", "--once")
    for answer, says in [((200, "<html>\x1b[31m</html>"), "it is another service"),
                         ((200, json.dumps({"program": "troupe 9.1"})), "(troupe 9.1); use the `troupe` that started"),
                         ((404, "nothing"), "status 404"),
                         ((403, json.dumps({"error": {"message": "not you"}})), "not you; give a copy of 'read.token'")]:
        with hub(None, answers={"/api/run": answer}) as (address, _):
            for more in [["--once"], ["--json"]]:
                refuses(says, "monitor", address, *more)
                if "\x1b" in run("monitor", address, *more)[2]:
                    raise wrong("an error has control characters of a server")
    token = folder / "token"
    with hub(None, token="0123abcd") as (address, _):
        refuses("give a copy of 'read.token' in the run's folder", "monitor", address, "--once")
        token.write_text("0123abcd\n")
        if "troupe small" not in works("monitor", f"http://{address}/", "--once", "--token-file", token):
            raise wrong("a token does not open the run")
        refuses("cannot open", "monitor", address, "--once", "--token-file", token, "--ca", folder / "gone.pem")
        token.write_text("two words\n")
        refuses("has no token", "monitor", address, "--once", "--token-file", token)
    path = run_folder(folder)
    with hub(path / "sockets/hub"):
        refuses("standard input or output is not a terminal; use --once", "monitor", path)
    if os.geteuid() != 0:
        path.chmod(0)
        refuses(str(path), "monitor", path, "--once")
        path.chmod(0o700)
    else:
        os.chown(path, 1, -1)
        refuses("user 1 owns it", "monitor", path, "--once")
        os.chown(path, 0, -1)


def timeline(step, at):
    return {"kind": "timeline", "at": at, "iteration": step, "planned_ms": 9, "executed_ms": 10, "bubble": 0.2,
            "planned_bubble": 0.1, "rows": [{"rank": 0, "executed": [["0F0", 0, 2]], "planned": [["0F0", 0, 1]]}]}


def check_export(folder):
    """--trace writes a trace of the next steps, and --otlp sends them to a collector."""
    path = run_folder(folder)
    (path / "control.token").write_text("0123abcd\n")
    file = folder / "trace.json"
    posted, collected = [], []
    old = {"/api/state": (200, json.dumps({**STATE, "records": [timeline(100, 1000), STEP]}))}
    lines = [timeline(100, 1000), timeline(101, 1001), timeline(101, 1001), timeline(102, 1002), timeline(103, 1003)]
    with hub(path / "sockets/hub", answers=old, lines=lines, posted=posted):  # the run goes on
        out = works("monitor", path, "--trace", file, "--steps", "2")
    actions = [x for x in json.loads(file.read_text())["traceEvents"] if x["ph"] == "X"]
    if "2 steps" not in out or [x["args"]["step"] for x in actions] != [101, 101, 102, 102]:
        raise wrong(f"--trace --steps 2 prints {out!r} and writes {actions}")
    if posted != [("/api/command", "Bearer 0123abcd", {"command": "trace", "steps": 2})]:
        raise wrong(f"the run got {posted}")
    (path / "sockets/hub").unlink()
    with hub(path / "sockets/hub", answers=old, lines=[*lines, END]), hub(None, posted=collected) as (address, _):
        works("monitor", path, "--otlp", f"http://{address}")
    if [x[0] for x in collected] != ["/v1/traces"] * 3:
        raise wrong(f"the collector got {[x[0] for x in collected]}")
    spans = collected[0][2]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    if [x["name"] for x in spans] != ["step", "stage:*.0", "0F0"]:
        raise wrong(f"the collector got {spans}")
    (path / "sockets/hub").unlink()
    with hub(path / "sockets/hub", answers=old, lines=[*lines, END]):
        code, _, err = run("monitor", path, "--otlp", "http://127.0.0.1:1")
    if code != 0 or err.count("cannot send the timeline of step ") != 1 or "3 steps did not reach the collector" not in err:
        raise wrong(f"a collector that is away: exit code {code}: {err}")
    refuses("give --trace FILE too", "monitor", path, "--steps", "3")
    refuses("follow the run without a view", "monitor", path, "--trace", file, "--json")
    with hub(None, answers=old) as (address, _):
        refuses("cannot be written", "monitor", address, "--trace", folder / "gone/trace.json")
        refuses("is not a URL", "monitor", address, "--otlp", "localhost:4318")


SCRIPT = """
local steps = {}
function on_step(step)
  steps[#steps + 1] = step.iteration
  if step.lm_loss > 4 then
    alarm("step " .. step.iteration)
    print(command{"pause"})
    print(post("http://ADDRESS/hook?x=1", { text = "high", steps = steps }))
    print(select(2, post("http://127.0.0.1:1/", {})))
  end
end
function on_event(event) alarm(event.event .. " of " .. event.who) end
function on_end(x) alarm("end " .. x.exit_code) end
"""


def check_script(folder):
    """--script passes the records to a Lua script, and carries out its alarms, commands and posts."""
    path = run_folder(folder)
    (path / "control.token").write_text("0123abcd\n")
    file = folder / "mine.lua"
    posted, hooked = [], []
    high = {**STEP, "iteration": 101, "lm_loss": 5.5}
    with hub(path / "sockets/hub", lines=[STEP, high, END], posted=posted), hub(None, posted=hooked) as (address, _):
        file.write_text(SCRIPT.replace("ADDRESS", address))
        done = run("monitor", path, "--script", file)
    if done[0] != 0 or done[1].splitlines() != ["alarm: restart of node-1", "alarm: step 101", "alarm: end 0"]:
        raise wrong(f"--script: exit code {done[0]}, prints {done[1]}\n{done[2]}")
    if posted != [("/api/command", "Bearer 0123abcd", {"command": "pause"})]:
        raise wrong(f"the run got {posted}")
    if hooked != [("/hook?x=1", None, {"text": "high", "steps": [100, 101]})]:
        raise wrong(f"the web service got {hooked}")
    for part in ["mine.lua:7: paused after step 101", "mine.lua:8: posted", "mine.lua:9: cannot"]:
        if part not in done[2]:
            raise wrong(f"the console lacks '{part}':\n{done[2]}")
    (path / "sockets/hub").unlink()
    with hub(path / "sockets/hub"):
        file.write_text("function on_step(step)\n  command{'fly'}\nend\n")
        refuses("mine.lua:2: unknown command 'fly'", "monitor", path, "--script", file)
        refuses("--script follows the run", "monitor", path, "--script", file, "--once")
        refuses("no.lua", "monitor", path, "--script", folder / "no.lua")
    with hub(None) as (address, _):
        refuses("mine.lua:2: command needs the run's control token", "monitor", address, "--script", file)
    (folder / "ended").mkdir()
    path = run_folder(folder / "ended", {"exit_code": 2, "reason": "full", "at": "2026-11-25T11:00:00Z"})
    file.write_text("function on_end(x) alarm(x.exit_code .. x.reason) end\n")
    if works("monitor", path, "--script", file) != "alarm: 2full\n":
        raise wrong("a script does not get the end of a run that has ended")


def check_ctl(folder):
    """A command waits for the answer of its run, and a signal ends the wait."""
    path = run_folder(folder)
    refuses("still starting, or has no hub", "ctl", "pause", "--run", path)
    (path / "control.token").write_text("0123abcd\n")
    posted, late = [], threading.Event()
    with hub(path / "sockets/hub", posted=posted, late=late):
        for sent, code in [(signal.SIGINT, 130), (signal.SIGTERM, 143)]:
            posted.clear()
            program = subprocess.Popen([cli_test.PROGRAM, "ctl", "pause", "--run", str(path)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            try:
                until("the command at the hub", lambda: posted)
                program.send_signal(sent)
                out, err = program.communicate(timeout=PATIENCE)
            finally:
                program.kill()
            if program.returncode != code or out or "it may still take the command" not in err:
                raise wrong(f"{sent.name}: exit code {program.returncode}, prints {out!r}: {err}")
        late.set()
        if works("ctl", "pause", "--run", path) != "paused after step 101\n":
            raise wrong("the answer of the run is not printed")
        if posted[-1] != ("/api/command", "Bearer 0123abcd", {"command": "pause"}):
            raise wrong(f"the run got {posted}")
    (path / "sockets/hub").unlink()
    refusal = (409, json.dumps({"error": {"message": "the run ends already"}}))
    with hub(path / "sockets/hub", posted=posted, answers={"/api/command": refusal}):
        refuses("the run ends already", "ctl", "pause", "--run", path)
    refuses("if the run has taken the command, `troupe ledger` shows it", "ctl", "pause", "--run", path)
    refuses("the run is missing", "ctl", "pause")
    refuses("unknown command 'fly'", "ctl", "fly", "--run", path)
    help_page = works("ctl", "--help")
    for name in ["status", "pause", "resume", "save", "evaluate", "learning-rate", "eval-interval", "save-interval",
                 "log-level", "replace", "trace", "norms", "stop-after", "stop"]:
        if name not in help_page:
            raise wrong(f"the help lacks {name}:\n{help_page}")


class screen:
    """The program on a terminal."""

    def __init__(self, *words, rows=24, columns=80, **environment):
        self.ours, self.its = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.its)
        self.text = b""
        self.program = subprocess.Popen(
            [cli_test.PROGRAM, *map(str, words)], stdin=self.its, stdout=self.its, stderr=self.its,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, *parts):
        """Reads until all parts were drawn since the last call."""
        end = time.monotonic() + PATIENCE
        while not all(x.encode() in self.text for x in parts):
            if not select.select([self.ours], [], [], max(0, end - time.monotonic()))[0]:
                raise wrong(f"not drawn within {PATIENCE} s: {parts}; the screen got {self.text!r}")
            try:
                self.text += os.read(self.ours, 65536)
            except OSError:
                raise wrong(f"the program ended before {parts}: {self.text!r}") from None
        drawn, self.text = self.text.decode("utf8", "replace"), b""
        return drawn

    def keys(self, text):
        os.write(self.ours, text.encode())

    def ends(self, *codes):
        """The program ends with one of the codes, and the terminal is as before."""
        end = time.monotonic() + PATIENCE
        while self.program.poll() is None:
            if time.monotonic() > end:
                raise wrong(f"the program has not ended within {PATIENCE} s")
            if select.select([self.ours], [], [], 0.02)[0]:
                self.text += os.read(self.ours, 65536)
        while select.select([self.ours], [], [], 0)[0]:
            self.text += os.read(self.ours, 65536)
        after = termios.tcgetattr(self.its)
        if self.program.returncode not in codes:
            raise wrong(f"exit code {self.program.returncode}, expected {codes}: {self.text!r}")
        if after != self.before:
            raise wrong(f"the terminal's modes are {after}, before {self.before}")
        if b"\x1b[?1049l" not in self.text:
            raise wrong(f"the terminal still shows the page: {self.text!r}")
        os.close(self.ours)
        os.close(self.its)


def check_terminal(folder):
    """The view follows the terminal's size and the keys, and restores the terminal."""
    path = run_folder(folder)
    with hub(path / "sockets/hub") as (_, end):
        one = screen("monitor", path)
        drawn = one.until("small", "100/300", "overview", "quit")
        if "\x1b[?1049h" not in drawn or "\x1b[31msignal" in drawn:
            raise wrong(f"not the alternate screen, or a name controls the terminal: {drawn!r}")
        one.resize(30, 100)
        one.until("overview", "quit")  # the line with the keys has moved
        one.keys("?")
        one.until("redraw")
        one.keys("?")
        one.until("X stop the run")
        one.keys("?4")
        one.until("restart")  # its line has moved
        one.keys("p")
        one.until("paused")
        one.keys("p\x0c")
        one.until("small", "quit")
        one.keys("q")
        one.ends(0)

        for sent, code in [(signal.SIGTERM, 143), (signal.SIGINT, 130)]:
            one = screen("monitor", path, LC_ALL="C")
            if not one.until("small", "quit").isascii():
                raise wrong("the view draws UTF-8 on a terminal without UTF-8")
            one.program.send_signal(sent)
            one.ends(code)

        one = screen("monitor", path)
        one.until("small", "quit")
        os.close(one.ours)  # the terminal is closed: SIGHUP
        if one.program.wait(timeout=PATIENCE) not in [0, 129]:
            raise wrong(f"a closed terminal: exit code {one.program.returncode}")
        os.close(one.its)

        one = screen("monitor", path)
        one.until("small", "quit")
        (path / "sockets/hub").unlink()
        end()
        one.until("reconnecting")  # the view stays open
        one.keys("q")
        one.ends(0)
    for kind in ["dumb", "no-such-terminal"]:
        one = screen("monitor", path, TERM=kind)
        said = one.until("use --once")
        if one.program.wait(timeout=PATIENCE) != 2 or "\x1b[?1049h" in said:
            raise wrong(f"TERM={kind}: {said!r}")
        os.close(one.ours)
        os.close(one.its)


def check_keys(folder):
    """A key sends its command to the run after a y, and the view shows the answer."""
    path = run_folder(folder)
    (path / "control.token").write_text("0123abcd\n")
    posted, late = [], threading.Event()
    with hub(path / "sockets/hub", posted=posted, late=late):
        one = screen("monitor", path)
        one.until("small", "q quit")
        one.keys("S")
        one.until("save a checkpoint of the newest step?")
        one.keys("n")
        one.until("q quit")
        one.keys("P")
        one.until("pause the run after this step?")
        one.keys("y")
        one.until("waiting for the run")
        late.set()
        one.until("after step 101")  # the beginning of the line is there already
        one.keys("q")
        one.ends(0)
    if posted != [("/api/command", "Bearer 0123abcd", {"command": "pause"})]:
        raise wrong(f"the run got {posted}")
    with hub(None) as (address, _):
        one = screen("monitor", address)
        one.until("small", "q quit")
        one.keys("X")
        one.until("use `troupe ctl --at HOST:PORT`")
        one.keys("q")
        one.ends(0)


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
