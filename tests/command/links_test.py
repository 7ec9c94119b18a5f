"""Connections that break between two live processes: the run continues, with the same bits. Run by ctest.

    links_test.py PROGRAM NAME...   runs the named checks, or all

The tests break the processes' own sockets from outside (pidfd_getfd), without injected faults.
"""

import ctypes
import errno
import os
import pathlib
import re
import signal
import socket
import struct
import sys

import cli_test
from cli_test import wrong
from process_runs import LONG, is_same, job, judge

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD = 434, 438  # system call numbers, equal on all architectures
OVER_TCP = {"UCX_TLS": "tcp"}  # otherwise processes on one host read each other's memory
STATES = ("established", 1)


def called(number, *words):
    out = LIBC.syscall(number, *words)
    if out >= 0:
        return out
    print(f"skipped: the system does not give a process the sockets of another one: {os.strerror(ctypes.get_errno())}")
    sys.exit(77)


def held(pid, number):
    """Duplicates a socket of another process into this one."""
    process = called(PIDFD_OPEN, pid, 0)
    try:
        return socket.socket(fileno=called(PIDFD_GETFD, process, number, 0))
    finally:
        os.close(process)


def connections(pid):
    """Established connections of a process: descriptor by the ports of both ends."""
    inodes = {}
    for at in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes[os.readlink(at)] = int(at.name)
        except OSError:
            pass
    out = {}
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        number = inodes.get(f"socket:[{words[9]}]")
        if int(words[3], 16) == STATES[1] and number is not None:
            out[int(words[1].rpartition(":")[2], 16), int(words[2].rpartition(":")[2], 16)] = number
    return out


def of_control(one):
    """Ports on which processes accept CAF connections."""
    return {int(x) for log in (one.run / "logs").glob("node-*")
            for x in re.findall(r"listens at [\d.]+:(\d+)", log.read_text(errors="replace"))}


def sent(at):
    """Acknowledged and received bytes of a connection (struct tcp_info)."""
    return sum(struct.unpack_from("QQ", at.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 120))


def data_connections(one, first, second):
    """Connections between the data planes of two processes, as sockets of the first one. The busiest comes first."""
    control = of_control(one)
    there = {(y, x) for x, y in connections(second)}
    out = [held(first, number) for ends, number in connections(first).items()
           if ends in there and not control & set(ends)]
    return sorted(out, key=sent, reverse=True)


def control_connections(one, first, second):
    """Connections of CAF between the two processes, as sockets of the first one."""
    control = of_control(one)
    there = {(y, x) for x, y in connections(second)}
    return [held(first, number) for ends, number in connections(first).items() if ends in there and control & set(ends)]


def between(one):
    return one.until("data connections", lambda: data_connections(one, one.node(0)["pid"], one.node(1)["pid"]))


def break_off(at):
    try:
        at.shutdown(socket.SHUT_RDWR)
    except OSError as failure:
        if failure.errno != errno.ENOTCONN:  # the processes close the other connections after one breaks
            raise


def deafen(at):
    """Drops all incoming packets, including acknowledgements; outgoing ones still arrive."""
    drop = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K, 0
    program = struct.pack("HL" if struct.calcsize("P") == 8 else "HI", 1, ctypes.addressof(drop))
    at.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER


def healed(one, how, times, most=None):
    """Applies `how` to all data connections, or to the `most` busiest, and waits until the run has recovered."""
    one.reaches(one.steps()[-1]["iteration"] + 5)
    found = between(one)
    for at in found[:most]:
        how(at)
    for at in found:
        at.close()
    one.until("the run restarts its generation", lambda: len(one.restarts()) >= times)
    one.reaches(one.steps()[-1]["iteration"] + 1)


def require_named(one):
    told = one.restarts()
    for x in told:
        text = str(x)
        if "connection:0-1" not in text or "between process" not in text:
            raise one.fails(f"a broken connection is reported as {x}")
    return told


def check_broken(folder):
    """Data connections break. Both processes continue over new ones, and the cause names both. The second time one
    process is replaced."""
    wanted = judge(folder)
    one = job(folder, *LONG, environment=OVER_TCP)
    one.reaches(5)
    before = [one.node(0), one.node(1)]
    healed(one, break_off, 1)
    after = [one.node(0), one.node(1)]
    if not all(map(is_same, before, after)):
        raise one.fails(f"a single break replaced processes: {before}, then {after}")
    healed(one, break_off, 2)
    one.until("another process", lambda: len(one.processes()) == 2
              and [is_same(x, y) for x, y in zip(before, [one.node(0), one.node(1)])].count(False) == 1)
    if "is replaced although it still runs" not in one.text():
        raise one.fails("no reason is given for replacing a live process")
    one.goes_on(wanted, "data connections that broke twice")
    if len(require_named(one)) != 2:
        raise one.fails(f"the log has the restarts {one.restarts()}")


def check_silent(folder):
    """The busiest data connection loses all data in one direction, without closing. The run detects it, and both
    processes go on."""
    wanted = judge(folder)
    one = job(folder, *LONG, "--suspicion-seconds", 3, environment=OVER_TCP)
    one.reaches(5)
    before = [one.node(0), one.node(1)]
    healed(one, deafen, 1, most=1)
    after = [one.node(0), one.node(1)]
    if not all(map(is_same, before, after)):
        raise one.fails(f"processes were replaced: {before}, then {after}")
    one.goes_on(wanted, "a data connection that lost what was sent")
    if len(require_named(one)) != 1:
        raise one.fails(f"the log has the restarts {one.restarts()}")


def check_control(folder):
    """The connection breaks over which the actors of two nodes exchange messages. The run and both processes go on."""
    goes_on_without_control(folder, *LONG)


def check_control_of_replicas(folder):
    """A control connection breaks, and no actor monitors an actor of the other process."""
    goes_on_without_control(folder, "--world-size", 4, "--train-iters", 120)


def goes_on_without_control(folder, *words):
    wanted = judge(folder) if words == tuple(LONG) else judge(folder, *words)
    one = job(folder, *words)
    one.reaches(5)
    before = [one.node(0), one.node(1)]
    found = one.until("control connections", lambda: control_connections(one, before[0]["pid"], before[1]["pid"]))
    for at in found:
        break_off(at)
        at.close()
    one.until("the run restarts its generation", one.restarts)
    one.reaches(one.steps()[-1]["iteration"] + 1)
    after = [one.node(0), one.node(1)]
    if not all(map(is_same, before, after)):
        raise one.fails(f"processes were replaced: {before}, then {after}")
    one.goes_on(wanted, "a broken control connection")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
