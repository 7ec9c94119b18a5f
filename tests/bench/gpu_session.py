"""Commands with limits, and the table of what they gave: what gpu_run.py stands on.

Everything is on disk as soon as it is known, because the machine may be taken back at any moment: a row
when it is said, a log while its command writes it, and in the folder --save, after each command, the
table and one archive of the logs.
"""

import io
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import time

LARGEST = 8 << 20  # of a file in the archive


class session:
    """One part: its logs, its rows, its end."""

    def __init__(self, o, part, ends):
        self.o, self.part, self.ends = o, part, ends
        self.bin = pathlib.Path(o.bin).resolve()
        self.out = pathlib.Path(o.out).resolve() / part
        self.kept = pathlib.Path(o.save).resolve() if o.save else None
        for folder in filter(None, [self.out, self.kept]):
            folder.mkdir(parents=True, exist_ok=True)
        for old in self.out.iterdir():
            if old.is_file():
                old.unlink()
        self.rows, self.running, self.failed = [], [], 0
        self.codes = {}  # with which code each command ended; None: it was stopped
        self.steps, self.dropped = (5, 2) if o.smoke else (14, 4)

    def row(self, what, value, goal="", ok=None, must=False):
        """ok: whether the goal is reached; None: there is none, or it says nothing here. must: of what is right or
        wrong, not fast or slow: a miss is a failure."""
        self.failed += must and ok is False
        self.rows.append((what, value, goal, "" if ok is None else "yes" if ok else "NO"))
        with open(self.out / "rows.jsonl", "a") as file:
            file.write(json.dumps(dict(zip(["what", "value", "goal", "reached"], self.rows[-1]))) + "\n")
        for folder in filter(None, [self.out, self.kept]):
            replace(folder / f"table.{self.part}.txt", (self.table() + "\n").encode())
        print(f"  {what}: {value}{f' ({goal})' if value in ('FAILED', 'left out') else ''}", flush=True)

    def left_out(self, what, why):
        self.row(what, "left out", why)

    def failure(self, what, why):
        self.failed += 1
        self.row(what, "FAILED", why[:110], False)

    def left(self):
        return self.ends - time.monotonic()

    def begin(self, name, words, limit, env=None):
        """Starts a command for end(); None, and a row, where no time is left."""
        if self.left() < 5:
            self.left_out(name, "no time is left")
            return None
        with open(self.out / f"{name}.log", "w") as log:
            child = subprocess.Popen([str(x) for x in words], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     start_new_session=True, env={**os.environ, **self.libraries(words), **(env or {})})
        self.running.append(child)
        now = time.monotonic()
        return dict(name=name, child=child, began=now, ends=min(now + limit, self.ends))

    def end(self, command, ok=(0,), excuse=None):
        """Standard output and error of a command that ended as it should, or None. `excuse` is given what a command said
        that did not, and its exit code (None: it was stopped): a text, why that is no failure, or nothing."""
        if command is None:
            return None
        child, name = command["child"], command["name"]
        try:
            code = child.wait(max(command["ends"] - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            code = None
        stop(child)  # what it has left behind, too
        self.running.remove(child)
        self.codes[name] = code
        seconds = time.monotonic() - command["began"]
        print(f"[{name}] {'stopped at its limit' if code is None else f'exit code {code}'} after {seconds:.0f} s", flush=True)
        text = self.log(name)
        if code not in ok:
            lines = [x for x in text.splitlines() if x.strip()] or ["it said nothing"]
            print("\n".join(f"    {x[:200]}" for x in lines[-8:]), flush=True)
            why = f"stopped after {seconds:.0f} s" if code is None else f"exit code {code}: {lines[-1]}"
            excused = excuse(text, code) if excuse else None
            if excused:
                self.left_out(name, excused)
            else:
                self.failure(name, why)
        self.save()
        return text if code in ok else None

    def run(self, name, words, limit, env=None, ok=(0,), excuse=None):
        return self.end(self.begin(name, words, limit, env), ok, excuse)

    def log(self, name):
        file = self.out / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def libraries(self, words):
        """For our programs alone: Python and PyTorch have their own."""
        ours = any(pathlib.Path(str(x)).parent == self.bin for x in words)
        return {"LD_LIBRARY_PATH": self.o.libraries} if ours and self.o.libraries else {}

    def table(self):
        rows = [("what", "value", "goal or reason", "reached"), *self.rows]
        widths = [max(len(r[i]) for r in rows) for i in range(3)]
        return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c:{widths[2]}}  {d}".rstrip() for a, b, c, d in rows)

    def save(self):
        if not self.kept:
            return
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
            for file in sorted(self.out.iterdir()):
                if file.is_file() and file.stat().st_size <= LARGEST:
                    data = file.read_bytes()  # a log may grow meanwhile
                    entry = tarfile.TarInfo(f"{self.part}/{file.name}")
                    entry.size, entry.mtime = len(data), int(file.stat().st_mtime)
                    archive.addfile(entry, io.BytesIO(data))
        replace(self.kept / f"logs.{self.part}.tgz", packed.getvalue())

    def close(self):
        while self.running:
            stop(self.running.pop())
        self.save()
        print(f"\n{self.part}\n{self.table()}\n", flush=True)


def replace(file, data):
    """In one step, so that no half of it is ever found."""
    fresh = file.with_name(file.name + ".new")
    fresh.write_bytes(data)
    os.replace(fresh, file)


def stop(child):
    """The command and all that it has started. First as a request: what is still in its buffers comes into the log."""
    for how, seconds in [(signal.SIGTERM, 3), (signal.SIGKILL, 10)]:
        try:
            os.killpg(child.pid, how)
        except ProcessLookupError:
            return
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def objects(text):
    """The JSON objects that a text has on lines of their own, whatever warnings stand around them."""
    at, reader = 0, json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            found, at = reader.raw_decode(text, at)
            yield found
        except ValueError:
            at += 1
