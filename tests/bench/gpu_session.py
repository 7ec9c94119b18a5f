"""Runs commands with limits and collects their results in a table. gpu_run.py is built on it.

The machine may be taken back at any moment, so everything is on disk at once: a row when it is known, a log while its
command runs. After each command the folder --save gets the table and one archive of the logs.
"""

import io
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import time

LARGEST = 8 << 20  # Bytes of a file in the archive.


class session:
    """One part of the benchmark: its logs, its rows and its deadline."""

    def __init__(self, o, part, ends):
        self.o, self.part, self.ends = o, part, ends
        self.bin = pathlib.Path(o.bin).resolve()
        self.out = pathlib.Path(o.out).resolve() / part
        self.folders = [self.out, *([pathlib.Path(o.save).resolve()] if o.save else [])]
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
        table = self.out / f"table.{part}.txt"  # The first file: it also marks the logs of an interrupted run as ours.
        if not table.exists() and any(self.out.iterdir()):
            raise SystemExit(f"gpu_run.py: '{self.out}' has files that no earlier run wrote; move it, or name another --out")
        for old in self.out.iterdir():
            if old.is_file() and old != table:
                old.unlink()
        table.write_text("")
        self.rows, self.running, self.failed = [], [], 0
        self.codes = {}  # Exit code of each command; None: stopped at its limit.
        self.steps, self.dropped = (5, 2) if o.smoke else (14, 4)

    def row(self, what, value, goal="", ok=None, must=False):
        """`ok`: the goal is reached; None: no verdict. `must`: a missed goal is a failure (right or wrong, not speed)."""
        self.failed += must and ok is False
        self.rows.append((what, value, goal, "" if ok is None else "yes" if ok else "NO"))
        for folder in self.folders:
            replace(folder / f"table.{self.part}.txt", (self.table() + "\n").encode())
        print(f"  {what}: {value}{f' ({goal})' if value in ('FAILED', 'left out') else ''}", flush=True)

    def left_out(self, what, why):
        self.row(what, "left out", why)

    def failure(self, what, why):
        self.row(what, "FAILED", why[:110], False, must=True)

    def begin(self, name, words, limit, env=None):
        """Starts a command for end(). Returns None, with a row, when no time is left."""
        now = time.monotonic()
        if self.ends - now < 5:
            return self.left_out(name, "no time is left")
        # Python and PyTorch have libraries of their own.
        ours = self.o.libraries and any(pathlib.Path(str(x)).parent == self.bin for x in words)
        libraries = {"LD_LIBRARY_PATH": self.o.libraries} if ours else {}
        with open(self.out / f"{name}.log", "w") as log:
            child = subprocess.Popen([str(x) for x in words], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     start_new_session=True, env={**os.environ, **libraries, **(env or {})})
        self.running.append(child)
        return dict(name=name, child=child, began=now, ends=min(now + limit, self.ends))

    def end(self, command, ok=(0,), excuse=None):
        """Waits for a command. Returns its output, or None when it failed or was stopped at its limit.

        `excuse(output, exit code)` may return a reason why that is no failure; the code of a stopped command is None."""
        if command is None:
            return None
        child, name = command["child"], command["name"]
        try:
            code = child.wait(max(command["ends"] - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            code = None
        stop(child)  # Also ends what the command left running.
        self.running.remove(child)
        self.codes[name] = code
        seconds = time.monotonic() - command["began"]
        print(f"[{name}] {'stopped at its limit' if code is None else f'exit code {code}'} after {seconds:.0f} s", flush=True)
        text = self.log(name)
        if code not in ok:
            lines = [x for x in text.splitlines() if x.strip()] or ["no output"]
            print("\n".join(f"    {x[:200]}" for x in lines[-8:]), flush=True)
            reason = excuse(text, code) if excuse else None
            if reason:
                self.left_out(name, reason)
            else:
                self.failure(name, f"stopped after {seconds:.0f} s" if code is None else f"exit code {code}: {lines[-1]}")
        self.save()
        return text if code in ok else None

    def run(self, name, words, limit, env=None, ok=(0,), excuse=None):
        return self.end(self.begin(name, words, limit, env), ok, excuse)

    def log(self, name):
        file = self.out / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def table(self):
        rows = [("what", "value", "goal or reason", "reached"), *self.rows]
        widths = [max(len(r[i]) for r in rows) for i in range(3)]
        return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c:{widths[2]}}  {d}".rstrip() for a, b, c, d in rows)

    def save(self):
        for folder in self.folders[1:]:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
                for file in sorted(x for x in self.out.iterdir() if x.is_file() and x.stat().st_size <= LARGEST):
                    data = file.read_bytes()  # The file may grow meanwhile, so its size comes from here.
                    entry = tarfile.TarInfo(f"{self.part}/{file.name}")
                    entry.size, entry.mtime = len(data), int(file.stat().st_mtime)
                    archive.addfile(entry, io.BytesIO(data))
            replace(folder / f"logs.{self.part}.tgz", packed.getvalue())

    def close(self):
        while self.running:
            stop(self.running.pop())
        self.save()
        print(f"\n{self.part}\n{self.table()}\n", flush=True)


def guarded(b, step, *words, **more):
    """An exception ends one step and becomes a row."""
    try:
        return step(b, *words, **more)
    except Exception as e:
        b.failure(" ".join([step.__name__, *(x for x in words if isinstance(x, str))]), f"{type(e).__name__}: {e}")


def replace(file, data):
    """Replaces a file in one step: a reader finds the old text or the new one."""
    fresh = file.with_name(file.name + ".new")
    fresh.write_bytes(data)
    os.replace(fresh, file)


def stop(child):
    """Ends a command and all processes of its session. SIGTERM first, so that buffered output reaches the log."""
    for how, seconds in [(signal.SIGTERM, 3), (signal.SIGKILL, 10)]:
        try:
            os.killpg(child.pid, how)
            child.wait(seconds)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def objects(text):
    """The JSON objects in a text that also has other lines."""
    at, reader = 0, json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            found, at = reader.raw_decode(text, at)
            yield found
        except ValueError:
            at += 1
