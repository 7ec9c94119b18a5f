"""Nodes started by hand: foreign callers at each port, and errors for bad input. Run by ctest.

    hosts_strangers_test.py PROGRAM NAME...   runs the named checks, or all
"""

import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import cli_test
from cli_test import refuses, wrong
from host_runs import ENDLESS, SLOW, hosted, hosts, keys, node, over
from process_runs import JOB, PATIENCE, PIPELINE, job, listening, require_same


def fails_soon(folder, says, *words, count=1):
    """Expects exit code 2 and one error that contains all of `says`. Returns the seconds that it took."""
    began = time.monotonic()
    code, out, err = cli_test.run(*JOB, *PIPELINE, "--train-iters", 2, "--run", folder / f"run-{time.monotonic_ns()}", *words)
    told = [x for x in err.splitlines() if x.startswith("troupe: ") and not x.startswith("troupe: warning")]
    if code != 2 or len(told) != count or not all(x in " ".join(told) for x in says):
        raise wrong(f"{words}: exit code {code}, expected 2 and {says}:\n{out}{err}")
    return time.monotonic() - began


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def check_refused(folder):
    """Bad input: one error that names the node, and exit code 2."""
    nodes, credentials = hosts(folder, 2)
    a, b = (x.at for x in nodes)
    given = ["--credentials", credentials]
    unused = f"127.0.0.1:{free_port()}"
    fails_soon(folder, [unused, "Connection refused"], "--nodes", f"{a},{unused}", *given)
    fails_soon(folder, [a, "twice"], "--nodes", f"{a},{a}", *given)
    fails_soon(folder, [a, "twice", "localhost"], "--nodes", f"{a},{a.replace('127.0.0.1', 'localhost')}", *given)
    fails_soon(folder, ["no-such-host.invalid"], "--nodes", f"{a},no-such-host.invalid:7000", *given)
    fails_soon(folder, ["HOST:PORT", "'nowhere'"], "--nodes", f"{a},nowhere", *given)
    fails_soon(folder, ["names 2 nodes", "3 processes"], "--nodes", f"{a},{b}", *given, "--processes", 3)
    fails_soon(folder, ["--nodes names one node"], "--nodes", a, *given)
    fails_soon(folder, ["--credentials"], "--nodes", f"{a},{b}")
    fails_soon(folder, ["none"], "--nodes", f"{a},{b}", "--credentials", folder / "none")
    fails_soon(folder, ["--nodes"], *given)
    fails_soon(folder, [a, "has other credentials"], "--nodes", f"{a},{b}", "--credentials", keys(folder, "others"))
    fails_soon(folder, ["the node at 127.0.0.1:", "--suspicion-seconds 10", "has 3"], "--nodes", f"{a},{b}", *given, "--suspicion-seconds", 3)
    fails_soon(folder, ["--processes is 5", "--world-size 4"], "--nodes", ",".join(f"127.0.0.1:{x}" for x in range(1, 6)), *given)
    spare = ["--nodes", f"{a},{b}", *given, "--spare-nodes"]
    fails_soon(folder, ["--spare-nodes", a, "which is also in --nodes"], *spare, a)
    fails_soon(folder, ["--spare-nodes", "which is also in --nodes"], *spare, b.replace("127.0.0.1", "localhost"))
    fails_soon(folder, ["--spare-nodes", unused, "twice"], *spare, f"{unused},{unused}")
    fails_soon(folder, [unused, "Connection refused"], *spare, unused)
    fails_soon(folder, ["--spare-nodes", "HOST:PORT", "'nowhere'"], *spare, "nowhere")
    fails_soon(folder, ["--spare-nodes needs --nodes"], "--spare-nodes", a)
    hasty = node(folder, "--suspicion-seconds", 3, credentials=credentials)
    fails_soon(folder, [f"the node at {hasty.at} does not serve", "--suspicion-seconds 3", "has 10"], *spare, hasty.at)
    # A server that listens and never answers.
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        took = fails_soon(folder, [at], "--nodes", f"{a},{at}", *given, "--suspicion-seconds", 2)
    if took > PATIENCE:
        raise wrong(f"refusing a silent node took {took} s")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        one = job(folder, *ENDLESS, "--nodes", f"{a},{at}", *given, "--suspicion-seconds", 10 * PATIENCE)
        silent.settimeout(PATIENCE)
        with silent.accept()[0]:  # the run waits for it
            one.process.send_signal(signal.SIGINT)
            one.ends()
    refuses("in use", "node", "--listen", a, *given)
    (folder / "open").mkdir(mode=0o755)
    refuses("others own it or may enter it", "credentials", folder / "open")
    refuses("--credentials", "node", "--listen", "127.0.0.1:0")
    refuses("is not a single address", "node", "--listen", "0.0.0.0:0", *given)
    refuses("not empty", "credentials", credentials)
    copied = folder / "readable"
    shutil.copytree(credentials, copied)
    (copied / "secret").chmod(0o644)
    refuses("0600", "node", "--listen", "127.0.0.1:0", "--credentials", copied)
    # The nodes still serve after all this, and are busy during a run.
    one = job(folder, *PIPELINE, "--train-iters", 100000, *over(nodes, credentials))
    one.reaches(2)
    fails_soon(folder, ["the node at 127.0.0.1:", "of another run"], "--nodes", f"{a},{b}", *given)
    one.process.terminate()
    one.ends()


def check_insecure(folder):
    """--insecure works, warns of what it disables, and needs both ends."""
    nodes = [node(folder, "--insecure") for _ in range(2)]
    where = ["--nodes", ",".join(x.at for x in nodes)]
    wanted = job(folder, *PIPELINE, "--train-iters", 4, processes=1).ends()
    one = job(folder, *PIPELINE, "--train-iters", 4, *where, "--insecure").ends()
    require_same(one, wanted, "without TLS")
    for said in (one.text(), nodes[0].text()):
        if "no TLS and no authentication between processes" not in said:
            raise one.fails(f"no warning about --insecure in\n{said}")
    credentials = keys(folder)
    fails_soon(folder, [nodes[0].at, "--insecure"], *where, "--credentials", credentials, "--suspicion-seconds", 3)
    safe = [node(folder, credentials=credentials) for _ in range(2)]
    fails_soon(folder, [safe[0].at, "--insecure"], *over(safe, credentials)[:2], "--insecure",
               "--suspicion-seconds", 3)
    fails_soon(folder, ["--credentials"], *over(safe, credentials), "--insecure")
    one = job(folder, *PIPELINE, "--train-iters", 4, *over(safe, credentials)).ends()
    require_same(one, wanted, "after a caller without TLS")


class proxy:
    """Forwards connections to a port and records what callers send."""

    def __init__(self, to):
        self.to, self.heard = to, []
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen()
        self.at = f"127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            caller = self.listening.accept()[0]
            other = socket.create_connection(("127.0.0.1", self.to))
            self.heard.append([])
            for x, y, kept in ((caller, other, self.heard[-1]), (other, caller, None)):
                threading.Thread(target=self.pass_on, args=(x, y, kept), daemon=True).start()

    def pass_on(self, x, y, kept):
        try:
            while data := x.recv(65536):
                if kept is not None:
                    kept.append(data)
                y.sendall(data)
            y.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def ports_of(pids):
    """Ports on which those processes listen."""
    rows = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
    mine = listening(pids)
    return {int(x[1].split(":")[1], 16) for x in rows if x[3] == "0A" and x[9] in mine}


def annoy(port, held, replayed, stranger):
    """Makes one connection of each kind and keeps the waiting ones open. Returns whether the port accepts calls."""
    def call():
        return socket.create_connection(("127.0.0.1", port), timeout=0.3)

    def say(data):
        with call() as at:
            try:
                at.sendall(data)
                at.shutdown(socket.SHUT_WR)
                while at.recv(4096):  # until the timeout: some keep waiting
                    pass
            except OSError:
                pass
    try:
        socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
    except TimeoutError:
        return False  # UCX's own port, which accepts only expected peers (runtime/transport/ucx/door.hpp)
    for data in (os.urandom(3000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(20),
                 b"\xff" * 64, b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + bytes(64), *replayed):
        say(data)
    for data in (b"", b"\x16\x03\x01\x02"):
        held.append(call())
        held[-1].sendall(data)
    for context in stranger:
        try:
            with context.wrap_socket(call()) as at:
                at.sendall(bytes(64))
                at.recv(64)
        except OSError:
            pass
    return True


def check_strangers(folder):
    """Foreign callers at each port of a run are refused, with one log line per kind, and no port stops working."""
    import ssl
    contexts = []
    for certified in (None, keys(folder, "others")):  # without a certificate, and with that of another run
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certified:
            context.load_cert_chain(certified / "certificate.pem", certified / "key.pem")
        contexts.append(context)
    nodes, credentials = hosts(folder)
    # First a run through a proxy: foreign callers replay its bytes at a node's port.
    between = proxy(nodes[0].port())
    job(folder, *PIPELINE, "--train-iters", 2, "--nodes", f"{between.at},{nodes[1].at}", "--credentials",
        credentials).ends()
    replayed = [max((b"".join(x) for x in between.heard), key=len)]
    if len(replayed[0]) < 1000:
        raise wrong("the proxy recorded no data")
    # A slow run: the callers take long, and the judge repeats each step.
    one = job(folder, *ENDLESS, *SLOW, *over(nodes, credentials))
    one.reaches(3)
    held, tried = [], set()

    def annoy_all(ports):  # in parallel, because it mostly waits
        with ThreadPoolExecutor(8) as callers:
            tried.update(port for port, takes in zip(ports, callers.map(
                lambda port: annoy(port, held, replayed, contexts), ports)) if takes)
    annoy_all(sorted(ports_of([*one.left(), *nodes[0].left(), *nodes[1].left()])))
    at = hosted(one, nodes, 1)
    os.kill(at["pid"], signal.SIGKILL)
    hosted(one, nodes, 1, but=at["pid"])  # all ports accept the new process
    # More silent connections than the backlog of a port.
    crowd = [x for x in ports_of([one.deciding()["pid"]]) | {nodes[0].port()} if x in tried]
    held += [socket.create_connection(("127.0.0.1", port), timeout=5) for port in crowd for _ in range(80)]
    annoy_all(crowd)
    at = hosted(one, nodes, 0)
    os.kill(at["pid"], signal.SIGKILL)
    hosted(one, nodes, 0, but=at["pid"])
    one.process.terminate()
    one.ends()
    newest = one.steps()[-1]["iteration"]
    require_same(one, job(folder, *ENDLESS, "--exit-interval", newest, processes=1).ends(),
                 "with strangers at every port")
    if len(tried) < 8 or len(crowd) < 3:
        raise one.fails(f"only the ports {tried} were found")
    for text in (one.out.read_text(), nodes[0].text()):
        told = [x.split(". Logged once")[0] for x in text.splitlines() if "was refused" in x]
        kinds = [re.sub(r"\d+", "N", x) for x in told]
        if not told or len(set(kinds)) != len(kinds):
            raise one.fails(f"foreign callers are logged as {told} in\n{text}")
    for x in held:
        x.close()
    require_same(job(folder, *PIPELINE, "--train-iters", 2, *over(nodes, credentials)).ends(),
                 job(folder, *PIPELINE, "--train-iters", 2, processes=1).ends(), "afterwards")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
