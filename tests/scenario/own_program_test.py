"""Tests a user's own program on several processes (tests/support/own_player.cpp). Run by ctest:

    own_program_test.py PROGRAM NAME...   runs the named checks, or all
"""

import atexit
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 100  # seconds, reached by a hang only
PROGRAM = ""


def wrong(text):
    return AssertionError(text)


def started(*words):
    one = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    atexit.register(one.kill)  # a failed check leaves no process
    return one


def ended(*words):
    one = started(*words)
    out, err = one.communicate(timeout=PATIENCE)
    return one.returncode, out.split(), err


def works(*words):
    code, digests, err = ended(*words)
    if code != 0 or err:
        raise wrong(f"{words} ends with {code}: {err}")
    return digests


def refuses(words, *told):
    code, digests, err = ended(*words)
    if code != 2 or digests or not all(x in err for x in told):
        raise wrong(f"{words} ends with {code}, expected an error with {told}:\n{err}{digests}")


def of_run(run):
    """Processes of the run: pid -> command line and environment."""
    out = {}
    for at in pathlib.Path("/proc").iterdir():
        if at.name.isdigit():
            try:
                words = (at / "cmdline").read_bytes()
                if b"\0run\0" + os.fsencode(run) + b"\0" in words:
                    out[int(at.name)] = words + (at / "environ").read_bytes()
            except OSError:
                pass
    return out


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise wrong(f"timeout of {PATIENCE} seconds: {what}")
        time.sleep(0.05)


def check_same_bits(folder):
    one, two = works("train", 1), works("train", 2, folder / "run")
    if len(one) != 12 or one != two:
        raise wrong(f"one process gives {one}, two give {two}")
    if not (folder / "run/logs/node-1.log").exists() or (folder / "run/credentials").exists():
        raise wrong("the run's folder has no logs, or still has credentials")
    if works("train", 2) != one:
        raise wrong("a run without a folder gives other bits")


def check_viewer_ends_it(folder):
    digests = works("drain", 2, folder / "run")
    if not 5 <= len(digests) < 1000000:
        raise wrong(f"a viewer ended the run after 5 iterations, but {len(digests)} ran")


def check_what_cannot_go_along(folder):
    run = folder / "run"
    for how, *told in [["forgets-extension", "model extension 'twice'", "registered_functions::extensions"],
                       ["forgets-rate", "learning rate 'falling'", "registered_functions::rates"],
                       ["forgets-schedule", "schedule 'eager'", "registered_functions::behaviours"]]:
        refuses([how, 2, run], *told, "own_program", "`main`")
    refuses(["does-not-ask", 2, run], "program.take_part()", "`main`")
    refuses(["alone", 2], "own_program")
    refuses(["troupe:node"], "for processes that a run starts", "'run'")
    refuses(["troupe:agent", "run", run, "patience", "soon"], "patience 'soon'")
    if run.exists():
        raise wrong("a refused run created its folder")


def check_nothing_is_left(folder):
    """All processes end when the program is killed; its secrets are in no command line or environment."""
    run = folder / "run"
    one = started("long", 2, run)
    for _ in range(3):
        one.stdout.readline()
    secret = (run / "credentials/secret").read_text().strip()
    parts = of_run(run)
    if len(parts) != 3 or len(secret) != 64:
        raise wrong(f"expected two nodes and an agent, found {parts}")
    if any(secret.encode() in words for words in parts.values()):
        raise wrong("the secret is in a command line or an environment")
    one.send_signal(signal.SIGKILL)
    one.communicate(timeout=PATIENCE)
    until("all processes of the run end", lambda: not of_run(run))


def own_families():
    names = works("families")
    if not names:
        raise wrong("the program has no family, so nothing was checked")
    return names


def nodes_of(run):
    return [pid for pid, words in of_run(run).items() if b"troupe:node" in words]


def check_families(folder):
    """A model of the program's own family gives the same bits on several processes, and after one of them died."""
    for name in own_families():
        expected, run = works(f"family:{name}", 1), folder / name
        if len(expected) != 12:
            raise wrong(f"the run of one process has states {expected}")
        one = started(f"family:{name}", 2, run)
        seen = [one.stdout.readline().strip() for _ in range(3)]
        os.kill(min(nodes_of(run)), signal.SIGKILL)
        out, err = one.communicate(timeout=PATIENCE)
        seen += out.split()
        if one.returncode != 0 or seen[-1] != expected[-1] or not set(seen) <= set(expected):
            raise wrong(f"{name}: ends with {one.returncode}: {err}\none process gives {expected}, two give {seen}")


def check_families_resume(folder):
    """A run that was killed with all its processes goes on from its checkpoint with the same bits."""
    for name in own_families():
        expected, run, saved = works(f"family:{name}", 1), folder / name, folder / f"{name}-saved"
        one = started(f"family:{name}", 2, run, saved)
        for _ in range(6):
            one.stdout.readline()
        one.send_signal(signal.SIGKILL)
        one.communicate(timeout=PATIENCE)
        until("all processes of the run end", lambda: not of_run(run))
        rest = works(f"family:{name}", 2, folder / f"{name}-again", saved)
        if not 0 < len(rest) < 12 or rest != expected[-len(rest):]:
            raise wrong(f"{name}: an undisturbed run gives {expected}, the resumed one goes on with {rest}")


def main(program, names):
    global PROGRAM
    PROGRAM = program
    checks = {name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")}
    if unknown := [name for name in names if name not in checks]:
        print(f"unknown checks: {unknown}; available: {sorted(checks)}")
        return 1
    for name in names or checks:
        with tempfile.TemporaryDirectory() as folder:
            checks[name](pathlib.Path(folder))
            print(f"{name}: as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
