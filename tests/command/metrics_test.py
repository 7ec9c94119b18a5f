"""The metrics of a live run: they name the run, `promtool check metrics` accepts them, and Prometheus scrapes them.

    metrics_test.py PROGRAM NAME...   runs the named checks, or all

Run by ctest. Exit code 77: Prometheus is not installed.
"""

import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import urllib.parse

import cli_test
from cli_test import works, wrong
from run_test import LONG, started, status, stepping, until

PATIENCE = 60  # timeout in seconds; only a hang reaches it
CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / "examples/monitoring/prometheus.yml"


class local_connection(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path):
        super().__init__("run", timeout=PATIENCE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def page_of(run):
    """The metrics page of the run in this folder."""
    connection = local_connection(run / "sockets/hub")
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    if answer.status != 200 or not answer.getheader("Content-Type", "").startswith("text/plain; version=0.0.4"):
        raise wrong(f"/metrics answers {answer.status} {answer.getheaders()}\n{text[:500]}")
    return text


def value_in(page, series):
    found = re.search(rf"^{re.escape(series)} (\S+)$", page, re.MULTILINE)
    if not found:
        raise wrong(f"no series {series} in\n{page}")
    return float(found[1])


def live(folder, *more):
    """Starts a run, waits for its first steps, and returns it with its folder."""
    train = started("train", "gpt", *LONG, "--run", folder / "run", *more)
    stepping(folder / "run")
    return train, folder / "run"


def ends(train, run):
    works("stop", "--run", run)
    train.communicate(timeout=PATIENCE)


def check_live(folder):
    """The metrics show the run's identity, its state and its growing iteration."""
    train, run = live(folder)
    page = until("metrics of a step", lambda: page if "\ntroupe_loss{" in (page := page_of(run)) else None)
    first = value_in(page, "troupe_iteration")
    if first < 1 or value_in(page, 'troupe_run_state{state="training"}') != 1:
        raise wrong(f"the page does not show a training run:\n{page}")
    if f'troupe_run_info{{run="{status(run)["id"]}",name="run",' not in page:
        raise wrong(f"the page does not name the run:\n{page}")
    until("a later iteration", lambda: value_in(page_of(run), "troupe_iteration") > first)
    ends(train, run)


def check_promtool(folder):
    """Prometheus' checker accepts the page without a complaint."""
    promtool = shutil.which("promtool")
    if not promtool:
        print("skipped: promtool is not installed; Debian's package is prometheus")
        sys.exit(77)
    train, run = live(folder)
    checked = subprocess.run([promtool, "check", "metrics"], input=page_of(run), capture_output=True, text=True,
                             timeout=PATIENCE, check=False)
    if checked.returncode != 0 or checked.stdout or checked.stderr:
        raise wrong(f"promtool ends with {checked.returncode}:\n{checked.stdout}{checked.stderr}")
    ends(train, run)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def check_scrape(folder):
    """Debian's Prometheus scrapes a run by the example's configuration, with the run's token."""
    program = shutil.which("prometheus")
    if not program:
        print("skipped: prometheus is not installed; Debian's package has this name")
        sys.exit(77)
    train, run = live(folder, "--monitor-address", "127.0.0.1:0")
    log = (run / "logs/supervisor.log").read_text()
    address = re.search(r"viewers reach this run at (\S+), with the token in (\S+)", log)
    if not address:
        raise wrong(f"the log does not name the port:\n{log}")
    text = CONFIGURATION.read_text()
    for old, new in [("kiwi:7000", address[1]), ("/etc/prometheus/troupe-read.token", address[2]), ("15s", "1s")]:
        if old not in text:
            raise wrong(f"the example lacks '{old}':\n{text}")
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    port = free_port()
    with open(folder / "prometheus.txt", "w") as out:
        server = subprocess.Popen([program, "--config.file", folder / "prometheus.yml", "--storage.tsdb.path",
                                   folder / "data", "--web.listen-address", f"127.0.0.1:{port}"], stdout=out,
                                  stderr=subprocess.STDOUT)
    try:
        def asked(query):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            try:
                connection.request("GET", "/api/v1/query?query=" + urllib.parse.quote(query))
                found = json.loads(connection.getresponse().read())["data"]["result"]
            except (OSError, KeyError, ValueError):
                return None  # it starts
            finally:
                connection.close()
            return found and float(found[0]["value"][1])

        first = until("Prometheus has the run's iteration", lambda: asked("troupe_iteration"))
        until("it grows", lambda: (asked("troupe_iteration") or 0) > first)
        if asked("up") != 1:
            raise wrong("Prometheus says that the run is down")
    finally:
        server.terminate()
        server.wait()
    ends(train, run)


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
