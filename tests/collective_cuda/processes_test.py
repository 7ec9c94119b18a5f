"""Groups of NCCL between processes, on emulated devices. Run by ctest:

    processes_test.py PEER PLUGINS NAME...
"""

import os
import signal
import subprocess
import sys

PEER, PLUGINS = sys.argv[1:3]
SIZE = 3
LIMIT = 60  # seconds; only a hang reaches it


def start(*words, **settings):
    env = {**os.environ, "TROUPE_PLUGINS": PLUGINS, "TROUPE_EMULATED_DEVICES": "4", **settings}
    return subprocess.Popen([PEER, *map(str, words)], env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def start_all(act, size=SIZE, **settings):
    """One process for each rank. The first one makes the id."""
    first = start(0, size, act, **settings)
    made = first.stdout.readline().strip()
    return [first, *(start(r, size, act, made, **settings) for r in range(1, size))]


def said_by(all_of_them):
    try:
        return [one.communicate(timeout=LIMIT)[0].splitlines() for one in all_of_them]
    finally:
        for one in all_of_them:
            one.kill()


def check_same():
    """Three processes have the results of three threads."""
    wanted, = said_by([start("all", SIZE, "scenario")])
    found = said_by(start_all("scenario"))
    assert len(wanted) == 3 * 4 * SIZE and sorted(x for one in found for x in one) == sorted(wanted), (found, wanted)


def check_released():
    """A process is killed; one that is told of the loss ends with its cause, in an operation or before the next."""
    all_of_them = start_all("repeat")
    for one in all_of_them:
        assert one.stdout.readline() == "sums\n"
    os.kill(all_of_them[2].pid, signal.SIGKILL)
    for one in all_of_them[:2]:
        one.stdin.write("lost 2\n")
        one.stdin.close()
        one.stdin = None
    for said in said_by(all_of_them)[:2]:
        assert len(said) == 1 and said[0].startswith("peer_lost: rank 2 of the group"), said
        assert "process 2: killed by signal 9" in said[0], said


def check_two_on_one_device():
    """NCCL serves one rank per device, also where each process calls its device 0."""
    first = start(0, 2, "scenario", CUDA_VISIBLE_DEVICES="3")
    second = start(1, 2, "scenario", first.stdout.readline().strip(), CUDA_VISIBLE_DEVICES="0,3")
    for said in said_by([first, second]):
        assert "two ranks of a communicator are on one device" in "".join(said), said


if __name__ == "__main__":
    for check in sys.argv[3:]:
        globals()[f"check_{check}"]()
        print(f"{check}: passed")
