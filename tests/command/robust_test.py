"""Disturbances from outside: signals at any moment, full disks, two runs in one place (SIGNAL-1, ONE-WRITER). Run by
ctest.

    robust_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp, preloaded to fail a chosen call.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cli_test
from cli_test import MOCK, SMALL, TEXT, wrong

FAULTS = None
EIO, ENOSPC = 5, 28
PATIENCE = 240  # timeout in seconds, for a busy machine


def words_of(*words):
    return [cli_test.PROGRAM, *map(str, words)]


def environment(fault):
    """`fault` is (folder, nth, error or -signal, count, calls)."""
    out = dict(os.environ)
    if fault:
        out["LD_PRELOAD"] = FAULTS
        out["ASAN_OPTIONS"] = "verify_asan_link_order=0"
        out["TROUPE_TEST_DISK_FAULT"] = " ".join(map(str, fault))
    return out


def run(*words, fault=None, **variables):
    done = subprocess.run(words_of(*words), capture_output=True, timeout=PATIENCE,
                          env=environment(fault) | variables)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def expect(code, *words, fault=None, says="", **variables):
    found, out, err = run(*words, fault=fault, **variables)
    if found != code or says not in out + err:
        raise wrong(f"{words} with {fault}: exit code {found}, expected {code} and "
                    f"'{says}'\n{out}\n{err}")
    return out + err


class running:
    """A run that is ended on request."""

    def __init__(self, *words, before=None):
        """`before` is called in the child process before exec."""
        self.it = subprocess.Popen(words_of(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=before)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.it.kill()
        self.it.stdout.close()
        self.it.wait()

    def wait_for(self, text):
        for line in self.it.stdout:
            if text in line.decode():
                return
        raise wrong(f"the run ended without printing '{text}'")

    def end(self, code):
        self.it.send_signal(signal.SIGTERM)
        out = self.it.communicate(timeout=PATIENCE)[0].decode()
        if self.it.returncode != code:
            raise wrong(f"exit code {self.it.returncode}, expected {code}\n{out}")


def wait_until_stopped(process):
    while "State:\tT" not in pathlib.Path(f"/proc/{process.pid}/status").read_text():
        time.sleep(0.01)


def training(folder, *more, log="log.jsonl"):
    return ["train", "gpt", *SMALL, *MOCK, "--log-interval", 1, "--log-file", folder / log,
            "--save", folder / "run", "--load", folder / "run", "--save-interval", 2, *more]


ENDLESS = ["--train-iters", 1000000, "--lr-decay-iters", 1000000, "--eval-iters", 0]


def steps(folder, log="log.jsonl"):
    """Digests by iteration; ignores a line that the run is still writing."""
    out, text = {}, (folder / log).read_text()
    for line in text[:text.rfind("\n") + 1].splitlines():
        record = json.loads(line)
        if "state_digest" in record:
            out[record["iteration"]] = record["state_digest"]
    return out


def undisturbed(folder, *more):
    place = folder / "whole"
    place.mkdir()
    expect(0, *training(place, *more))
    return steps(place)


def require_clean(place):
    """Checks that no partial checkpoint, tracker or other file is left."""
    for path in place.rglob("*"):
        if ".partial" in path.name or ".removed" in path.name or ".replaced" in path.name:
            raise wrong(f"'{path}' is left")


def check_signals_in_saves(folder):
    """A signal at any moment of a save ends the run in order, and a resumed run has the same bits."""
    expected = undisturbed(folder)
    for number, which in enumerate([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTERM]):
        place = folder / str(number)
        place.mkdir()
        expect(0, *training(place), fault=(place / "run", 4 + 11 * number, -which, 1))
        require_clean(place)
        expect(0, *training(place))
        if steps(place) != expected:
            raise wrong(f"signal {which} in a save: the resumed run has other digests")


def check_second_signal(folder):
    """The second signal ends the run at once; the next run removes its leftovers."""
    expected = undisturbed(folder)
    place = folder / "run2"
    place.mkdir()
    # Sends many signals: the process may make some more calls before it sees the second one.
    found, out, err = run(*training(place), fault=(place / "run", 12, -signal.SIGTERM, 1000))
    if found not in (0, 128 + signal.SIGTERM):
        raise wrong(f"a second signal: exit code {found}\n{out}\n{err}")
    expect(0, *training(place))
    require_clean(place)
    if steps(place) != expected:
        raise wrong("after a second signal the resumed run has other digests")


def check_signals_while_preparing(folder):
    """A signal while the run builds its index ends it soon and in order."""
    (folder / "text.txt").write_text(TEXT)
    expect(0, "tokenizer", "train", "--input", folder / "text.txt", "--vocab-size", 300,
           "--output", folder / "tok")
    tok = ["--vocab-file", folder / "tok/vocab.json", "--merge-file", folder / "tok/merges.txt",
           "--tokenizer-type", "GPT2BPETokenizer"]
    expect(0, "preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "data", *tok)
    for nth in [2, 9, 17]:
        cache, run_folder = folder / f"cache{nth}", folder / f"run{nth}"
        words = ["train", "gpt", *SMALL, *tok, "--data-path", folder / "data_text_document",
                 "--split", "90,10,0", "--data-cache-path", cache, "--save", run_folder]
        # The run may see the signal only after the index is built: then the actors end it.
        told = expect(0, *words, fault=(cache, nth, -signal.SIGTERM, 1), says="SIGTERM")
        require_clean(cache)
        if "before the first iteration" in told and list(run_folder.glob("iter_*")):
            raise wrong("a run that ended before its first iteration saved something")
        expect(0, *words, "--load", run_folder)


def check_signals_in_preprocess(folder):
    """A command that is ended by a signal leaves no partial output: nothing, or everything if the signal came too
    late."""
    (folder / "text.txt").write_text(TEXT)
    (folder / "long.txt").write_text(TEXT * 100)
    tok, out = folder / "tok", folder / "out"
    vocabulary = ["--vocab-file", tok / "vocab.json", "--merge-file", tok / "merges.txt",
                  "--tokenizer-type", "GPT2BPETokenizer"]
    expect(0, "tokenizer", "train", "--input", folder / "text.txt", "--vocab-size", 300,
           "--output", tok)
    whole = {"x_text_document.bin", "x_text_document.idx"}
    for which in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
        for nth in [1, 3, 7]:
            out.mkdir()
            code, _, err = run("preprocess", "--input", folder / "long.txt", "--output-prefix",
                               out / "x", *vocabulary, fault=(out, nth, -which, 1))
            left = {x.name for x in out.iterdir()}
            if (code, left) != (0, whole) and (
                    (code, left) != (128 + which, set()) or "was written" not in err):
                raise wrong(f"signal {which} at call {nth}: exit code {code}, {left}\n{err}")
            shutil.rmtree(out)


def check_stopped(folder):
    """SIGSTOP and SIGCONT, and a closed pipe of standard output, do not affect the training."""
    expected = undisturbed(folder)
    place = folder / "stopped"
    place.mkdir()
    with running(*training(place)) as it:
        it.wait_for("iteration        2/")
        it.it.send_signal(signal.SIGSTOP)
        wait_until_stopped(it.it)
        it.it.send_signal(signal.SIGCONT)
        it.it.stdout.close()
        # Exit code 2: only output was lost.
        if it.it.wait(timeout=PATIENCE) not in (0, 2):
            raise wrong(f"a run without a reader: exit code {it.it.returncode}")
    if steps(place) != expected:
        raise wrong("a run that was paused has other digests")


def check_two_runs(folder):
    """A second run in the same place is refused with the pid of the first. A dead run does not block the place."""
    with running(*training(folder, *ENDLESS)) as first:
        first.wait_for("iteration        1/")
        owner = f"process {first.it.pid}"
        expect(2, *training(folder, log="other.jsonl"), says=owner)
        expect(2, "train", "gpt", *SMALL, *MOCK, "--log-file", folder / "log.jsonl", says=owner)
        expect(2, "train", "gpt", *SMALL, *MOCK, "--log-file", folder / "run/../log.jsonl", says=owner)
        first.it.kill()  # without a chance to unlock
        first.it.wait()
    expect(0, *training(folder, *ENDLESS, "--exit-interval", 1))


def check_removed_folder(folder):
    """A save folder that is removed during a run is locked again, so a second run is refused. The run also writes a
    new log."""
    save = folder / "run"
    save.mkdir()
    with running(*training(folder, *ENDLESS, log="run/log.jsonl")) as it:
        it.wait_for("saved iteration 2 ")
        it.it.send_signal(signal.SIGSTOP)
        wait_until_stopped(it.it)
        shutil.rmtree(save)
        it.it.send_signal(signal.SIGCONT)
        it.wait_for("it is locked again")
        it.wait_for("saved iteration")
        expect(2, *training(folder, log="other.jsonl"), says=f"process {it.it.pid} is saving there")
        while not ((save / "log.jsonl").exists() and steps(folder, log="run/log.jsonl")):
            it.wait_for("iteration")
        it.end(0)
    require_clean(save)
    expect(0, "checkpoint", "verify", save)


def check_two_outputs(folder):
    """Two preprocess commands with one output: the second is refused without effect on the first."""
    words = ["preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "x",
             "--tokenizer-type", "NullTokenizer", "--vocab-size", 100]
    (folder / "text.txt").write_text("1 2 3\n\n4 5\n")
    # The first one stops itself at its first write, until SIGCONT.
    first = subprocess.Popen(words_of(*words), stdout=subprocess.DEVNULL,
                             env=environment((folder / "x", 1, -signal.SIGSTOP, 1)))
    try:
        wait_until_stopped(first)
        expect(2, *words, says=f"process {first.pid}")
    finally:
        first.send_signal(signal.SIGCONT)
        if first.wait(timeout=PATIENCE) != 0:
            raise wrong(f"the first preprocess: exit code {first.returncode}")
    expect(0, *words)


def check_full_disk(folder):
    """Training continues when the disk is full; the exit code reports whether the last save succeeded."""
    longer = ["--train-iters", 8]  # so that a save fails before the last iteration even when it is slow
    expected = undisturbed(folder, *longer)
    place, disk = folder / "place", folder / "place/run"
    disk.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", disk],
                             capture_output=True).returncode == 0
    print("full_disk:", "a small tmpfs" if mounted else "injected errors: no permission to mount")
    try:
        fault = None
        if mounted:
            (disk / "filler").write_bytes(bytes(400 << 10))
        else:
            fault = (disk, 60, ENOSPC, 1000000)
        told = expect(2, *training(place, *longer), fault=fault, says="is not saved")
        for text in ["No space left on device", "training continues", "free some space", "tried again"]:
            if text not in told:
                raise wrong(f"the report of a full disk lacks '{text}':\n{told}")
        if steps(place) != expected:
            raise wrong("a full disk changed the training")
        expect(0, "checkpoint", "verify", disk)
        if mounted:
            (disk / "filler").unlink()
        expect(0, *training(place, *longer, "--keep-last", 1))
        if steps(place) != expected:
            raise wrong("the run resumed after a full disk has other digests")
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", disk], check=True)


def check_places(folder):
    """Refuses files in place of folders, and damaged folders."""
    (folder / "file").write_text("not a folder")
    mine = ["train", "gpt", *SMALL, *MOCK]
    expect(2, *mine, "--save", folder / "file", says="file")
    expect(2, *mine, "--save", folder / "file/below", says="file")
    expect(2, *mine, "--load", folder / "file", says="file")
    expect(2, *mine, "--load-hf", folder / "file", says="file")
    (folder / "run/iter_0000002").mkdir(parents=True)
    expect(2, *mine, "--load", folder / "run", says="iter_0000002")
    # An unwritable trace only affects the exit code.
    expect(2, *mine, "--save", folder / "saved", "--trace", "/dev/full", says="cannot save the trace of the run")
    expect(0, "checkpoint", "verify", folder / "saved")


def check_fewer_threads(folder):
    """OpenMP's own settings of threads do not change bits: the number of threads is a setting of the run."""
    os.environ.pop("GOMP_SPINCOUNT", None)  # the tests' preset sets it; here the program must
    words = ["train", "gpt", *MOCK, "--num-layers", 2, "--hidden-size", 64, "--num-attention-heads", 4,
             "--seq-length", 64, "--micro-batch-size", 4, "--train-iters", 4, "--lr", 1e-3,
             "--eval-iters", 1, "--eval-interval", 2, "--log-interval", 1, "--threads-per-worker", 3]
    (folder / "ids.txt").write_text(" ".join(str(i * i % 97) for i in range(300)) + "\n")
    found, losses = {}, {}
    for number, variables in enumerate([
            {}, {"OMP_DYNAMIC": "true"}, {"OMP_THREAD_LIMIT": "1"}, {"OMP_MAX_ACTIVE_LEVELS": "0"},
            {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "2", "GOMP_SPINCOUNT": "0"}]):
        expect(0, *words, "--log-file", folder / f"{number}.jsonl", "--save", folder / str(number), **variables)
        found[str(variables)] = steps(folder, log=f"{number}.jsonl")
        code, losses[str(variables)], err = run("eval", "--json", "--load", folder / "0", "--input", folder / "ids.txt",
                                                "--threads", 2, **variables)
        if code != 0:
            raise wrong(f"eval with {variables}: exit code {code}\n{err}")
    if len(set(losses.values())) != 1:
        raise wrong(f"the losses of one model on one text are {losses}")
    whole = found.pop("{}")
    for variables, digests in found.items():
        if digests != whole or len(digests) != 4:
            raise wrong(f"with {variables} the digests are {digests}, expected {whole}")
    # The program has executed itself again, but keeps its process name.
    (folder / "named").mkdir()
    with running(*training(folder / "named", *ENDLESS)) as it:
        it.wait_for("iteration        1/")
        name = pathlib.Path(f"/proc/{it.it.pid}/comm").read_text().strip()
    if name != pathlib.Path(cli_test.PROGRAM).name:
        raise wrong(f"the process name is '{name}', expected '{pathlib.Path(cli_test.PROGRAM).name}'")


def check_refused_threads(folder):
    """If the system refuses a thread once, the run has the same bits. If it keeps refusing, the run ends soon with the
    reason."""
    words = ["train", "gpt", *MOCK, "--num-layers", 1, "--hidden-size", 64, "--num-attention-heads", 4,
             "--seq-length", 64, "--micro-batch-size", 4, "--global-batch-size", 8, "--train-iters", 2,
             "--lr", 1e-3, "--eval-iters", 1, "--eval-interval", 2, "--log-interval", 1,
             "--world-size", 2, "--threads-per-worker", 2]
    refused = folder / "refused"

    def trained(name, nth, count):
        place = folder / name
        place.mkdir()
        found = run(*words, "--log-file", place / "log.jsonl", "--save", place / "run",
                    LD_PRELOAD=str(pathlib.Path(FAULTS).with_name("libtroupe_thread_faults.so")),
                    TROUPE_TEST_THREAD_FAULT=f"{nth} {count} {refused}")
        return place, *found

    whole, *_ = trained("whole", 0, 0)
    expected = steps(whole)
    for count in [1, 1000000]:
        for nth in range(1, 100):
            place, code, out, err = trained(f"{count}.{nth}", nth, count)
            if not refused.exists():
                break
            refused.unlink()
            if code == 0 and steps(place) == expected:
                continue
            told = "cannot start the thread" in err and "Resource temporarily unavailable" in err
            if code != 2 or count == 1 or not told:
                raise wrong(f"{count} threads refused from number {nth} on: exit code {code}\n{out}\n{err}")
            require_clean(place)
        if nth < 10:
            raise wrong(f"the run started only {nth - 1} threads")
        print(f"refused_threads: {nth - 1} threads, {count} refused")


def check_unreadable(folder):
    """Read errors of a disk count as damage of the checkpoint: it is named, and an older one is used."""
    expect(0, *training(folder))
    newest = folder / "run/iter_0000006"
    sector = (newest, 1, EIO, 1000, "mmap")
    expect(2, "checkpoint", "verify", folder / "run", fault=sector, says="Input/output error")
    told = expect(0, *training(folder, "--train-iters", 8, "--override-opt_param-scheduler"),
                  fault=sector, says="Input/output error")
    if "iter_0000004" not in told or str(newest) not in told:
        raise wrong(f"the damaged or the used checkpoint is not named:\n{told}")


def check_cut_short(folder):
    """A data set that is truncated while a run reads it ends the run with that cause."""
    (folder / "text.txt").write_text("\n".join(" ".join(str((i * j) % 97) for j in range(60))
                                               for i in range(300)))
    null = ["--tokenizer-type", "NullTokenizer", "--vocab-size", 100]
    expect(0, "preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "data", *null)
    data = folder / "data_text_document"
    words = ["train", "gpt", *SMALL, *null, *ENDLESS, "--data-path", data, "--split", "100,0,0",
             "--log-interval", 1, "--save", folder / "run", "--save-interval", 2]
    with running(*words) as it:
        it.wait_for("saved iteration 2 ")  # a save in progress at the end is dropped
        os.truncate(f"{data}.bin", 0)
        out = it.it.communicate(timeout=PATIENCE)[0].decode()
        if it.it.returncode != 2 or "cut short" not in out or f"{data}.bin" not in out:
            raise wrong(f"a truncated data set: exit code {it.it.returncode}\n{out}")
    require_clean(folder / "run")
    expect(0, "checkpoint", "verify", folder / "run")


def check_ignored_signals(folder):
    """Signals that were ignored at the start (nohup, a background job) do not end the run."""
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with running(*training(folder, *ENDLESS), before=ignore) as it:
        it.wait_for("iteration        1/")
        for which in [signal.SIGHUP, signal.SIGINT]:
            it.it.send_signal(which)
            it.wait_for("iteration")
        it.wait_for("iteration")
        it.end(0)


def check_large_files(folder):
    """Under `ulimit -f` a save fails, without effect on the steps."""
    expected = undisturbed(folder)
    place = folder / "place"
    place.mkdir()
    limit = 16 << 10
    with running(*training(place), before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) as it:
        out = it.it.communicate(timeout=PATIENCE)[0].decode()
        if it.it.returncode != 2 or "File too large" not in out or "ulimit -f" not in out:
            raise wrong(f"a limited file size: exit code {it.it.returncode}\n{out}")
    if steps(place) != expected:
        raise wrong(f"a limited file size changed the training\n{out}")


def check_any_bytes(folder):
    """Paths are bytes: a run saves, logs and resumes below names that are not UTF-8."""
    save, log = folder / os.fsdecode(b"x\xff"), folder / os.fsdecode(b"l\xff.jsonl")
    words = ["train", "gpt", *SMALL, *MOCK, "--save", save, "--load", save, "--log-file", log,
             "--log-interval", 1]
    expect(0, *words)
    expect(0, *words, "--train-iters", 8, "--override-opt_param-scheduler")
    if 8 not in steps(folder, log.name):
        raise wrong("the run resumed in a folder with a name that is not UTF-8 wrote no log")


def check_fifos(folder):
    """A FIFO in place of a file is refused, without waiting for a reader."""
    (folder / "run").mkdir()
    os.mkfifo(folder / "run/latest_checkpointed_iteration.txt")
    out = expect(2, *training(folder), says="latest_checkpointed_iteration.txt")
    if (folder / "log.jsonl").exists():
        raise wrong(f"a run that cannot save started:\n{out}")
    (folder / "other").mkdir()
    os.mkfifo(folder / "other/config.yaml")
    words = ["train", "gpt", *SMALL, *MOCK, "--save", folder / "other"]
    expect(2, *words, says="config.yaml")
    if (folder / "other/config.1.yaml").exists():
        raise wrong("a FIFO is kept as the previous configuration")


def main():
    global FAULTS
    FAULTS = str(pathlib.Path(sys.argv[2]).resolve())
    return cli_test.main(sys.argv[1], sys.argv[3:], globals())


if __name__ == "__main__":
    sys.exit(main())
