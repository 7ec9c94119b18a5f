"""Console output of a run on a terminal and in a pipe: lines, progress bar, colours, last messages. Run by ctest.

    console_test.py PROGRAM NAME...   runs the named checks, or all
"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import cli_test
from cli_test import refuses, run, works, wrong
from watch_test import TRAIN


def on_terminal(words, columns, **environment):
    """Runs a command on a terminal with that many columns. Returns its output."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([cli_test.PROGRAM, *map(str, words)], stdout=its, stderr=its, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TERM": "xterm", **environment}) as program:
        os.close(its)
        text = b""
        try:
            while more := os.read(ours, 65536):
                text += more
        except OSError:  # the other end is closed
            pass
        if program.wait(timeout=60) != 0:
            raise wrong(f"failed on a terminal: {text.decode()}")
    os.close(ours)
    return text.decode()


def check_terminal(folder):
    """Draws a bar that fits the terminal, with whole lines above it. Writes no control characters elsewhere."""
    for columns in [200, 80, 30, 7]:
        text = on_terminal(TRAIN, columns)
        drawn = [x for x in re.split(r"\r\x1b\[K|\r\n", text) if x.startswith("training [") or "%" in x[:8]]
        if not drawn or any(len(x) >= columns for x in drawn):
            raise wrong(f"no bar, or one wider than {columns} columns: {text!r}")
        if "100 %" not in text:
            raise wrong(f"the bar does not end: {text!r}")
        if columns >= 80 and not any(re.match(r"training \[[#-]*\] +\d+ %  \d/6  loss \d\.\d{4}", x) for x in drawn):
            raise wrong(f"the bar has no iteration, or no loss: {drawn}")
        for line in text.split("\r\n"):
            if "lm loss" in line and not line.split("\x1b[K")[-1].startswith(" "):
                raise wrong(f"a line of the log starts on the line of the bar: {line!r}")
        if not text.endswith("\r\n"):
            raise wrong(f"the output does not end with a line break: {text[-80:]!r}")
    for quiet in [on_terminal(TRAIN, 80, TERM="dumb"), on_terminal([*TRAIN, "--no-progress"], 80, NO_COLOR="1"),
                  *run(*TRAIN)[1:]]:
        if "%" in quiet or "\x1b" in quiet or "\r" in quiet.replace("\r\n", "\n"):
            raise wrong(f"unexpected bar or control characters: {quiet!r}")
    for line in on_terminal(TRAIN, 80).split("\x1b[K")[-1].split("\r\n"):
        if "%" in line or "training [" in line:
            raise wrong(f"the bar remains between the last lines: {line!r}")
    text = folder / "text.txt"
    text.write_text("The actor bows.\n\n" * 2000)
    for command in [["tokenizer", "train", "--input", text, "--vocab-size", 270, "--output", folder / "tok"],
                    ["preprocess", "--input", text, "--output-prefix", folder / "data", "--tokenizer-type",
                     "GPT2BPETokenizer", "--vocab-file", folder / "tok/vocab.json", "--merge-file",
                     folder / "tok/merges.txt"]]:
        code, out, err = run(*command)
        if code != 0 or "\x1b" in out + err or "\r" in out + err:
            raise wrong(f"{command}: {code}, or control characters in a pipe: {out!r} {err!r}")


def check_forms(folder):
    """The console has the chosen lines in the chosen form, and colours on a terminal only."""
    text = on_terminal([*TRAIN, "--no-progress"], 80)
    lines = [x for x in text.split("\r\n") if " loss " in x]
    if len(lines) != 7 or any(len(x) >= 80 for x in lines) or not lines[0].startswith(" iter 1/6  loss "):
        raise wrong(f"a terminal has no short lines: {lines}")
    if "\x1b[33m\x1b[1mwarning\x1b[m: nothing will be saved" not in text:
        raise wrong(f"a warning on a terminal has no colour: {text!r}")
    if "\x1b[3" in on_terminal([*TRAIN, "--no-progress"], 80, NO_COLOR="1"):
        raise wrong("NO_COLOR changes nothing")
    if " lm loss: " not in on_terminal([*TRAIN, "--log-format", "megatron"], 80):
        raise wrong("--log-format megatron is not Megatron-LM's")
    code, out, err = run(*TRAIN, "--log-format", "short")
    if code != 0 or " iter 6/6  loss " not in out or "nothing will be saved" not in err or "\x1b" in err:
        raise wrong(f"--log-format short in a pipe: {code}\n{out}{err}")
    cut = works(*TRAIN, "--log-interval", 100, "--exit-interval", 5, "--log-format", "short")
    if re.findall(r"^ iter \d+/6  loss", cut, re.MULTILINE) != [" iter 1/6  loss", " iter 5/6  loss"]:
        raise wrong(f"expected lines of the first and the last step only:\n{cut}")
    for said in ["model: ", " parameters", "data: 24 training samples of 16 tokens: ", "epochs of", "for the test",
                 "starting from iteration 0, with initial values"]:
        if said not in out:
            raise wrong(f"the start lacks '{said}':\n{out}")
    for position, tells in [("rope", True), ("learned_absolute", False)]:
        told = works(*TRAIN, "--position-embedding-type", position, "--reset-position-ids")
        if (" --reset-position-ids has no effect: only learned positions restart" in told) != tells:
            raise wrong(f"--reset-position-ids with {position} positions:\n{told}")
    if "data        24 training samples of 16 tokens: " not in works(*TRAIN, "--dry-run"):
        raise wrong("the dry run does not show the size of the data")
    for number, (words, tells) in enumerate([([], True), (["--log-level", "warning"], False), (["--quiet"], False),
                                             (["--quiet", "--log-level", "debug"], False)]):
        code, out, err = run(*TRAIN, "--save", folder / str(number), *words)
        if code != 0 or bool(out) != tells or err or not (folder / str(number) / "log.jsonl").exists():
            raise wrong(f"{words}: {code}\n{out}{err}")
    if (text := on_terminal([*TRAIN, "--quiet", "--save", folder / "quiet"], 80)) != "":
        raise wrong(f"--quiet prints {text!r} on a terminal")
    refuses("--log-level", *TRAIN, "--log-level", "loud")


def check_signals(folder):
    """After a second signal the prompt is on its own line. The run says what it does not save."""
    slow = [cli_test.PROGRAM, *map(str, [*TRAIN, "--train-iters", 1000000, "--plant-delays", "1,200000,0"])]
    ours, its = pty.openpty()
    with subprocess.Popen(slow, stdout=its, stderr=its, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TERM": "xterm"}) as program:
        os.close(its)
        text, sent = b"", 0
        try:
            while more := os.read(ours, 65536):
                text += more
                if sent < (b" left" in text) + (b"SIGTERM: " in text):
                    program.send_signal(signal.SIGTERM)
                    sent += 1
        except OSError:  # the other end is closed
            pass
        code = program.wait(timeout=60)
    os.close(ours)
    if code != 128 + signal.SIGTERM or not text.endswith((b"\r\n", b"\r\x1b[K")):
        raise wrong(f"{code}: the output does not end with a line break: {text[-80:]!r}")
    for more, says in [([], b"then stopping; nothing is saved, as there is no --save; a second signal ends at once\n"),
                       (["--save", str(folder / "run")],
                        b"then saving and stopping; a second signal ends at once, without saving\n")]:
        with subprocess.Popen([*slow, *more, "--log-interval", "1"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as program:
            said = b""
            while b"iteration        1/" not in said and (more_said := os.read(program.stdout.fileno(), 65536)):
                said += more_said
            program.send_signal(signal.SIGTERM)
            said += program.stdout.read()
            if program.wait(timeout=60) != 0 or says not in said:
                raise wrong(f"SIGTERM with {more}: {said.decode()}")
    for sent in [signal.SIGTERM, signal.SIGINT]:
        with subprocess.Popen([*slow, "--log-interval", "100"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as program:
            said = b""
            while b"iteration        1/" not in said and (more_said := os.read(program.stdout.fileno(), 65536)):
                said += more_said
            program.send_signal(sent)
            said = (said + program.stdout.read()).decode()
            program.wait(timeout=60)
        finished = re.findall(r"(?:finishing|stopping after) iteration (\d+)", said)
        lines = re.findall(r" iteration +(\d+)/", said)
        if len(finished) != 1 or lines[-1] != finished[0]:
            raise wrong(f"{sent.name}: the last step {finished} has no line: {said}")
    for sent in [signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU]:  # sent by cluster schedulers
        with subprocess.Popen([*slow, "--save", str(folder / sent.name), "--log-interval", "1"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
            said = b""
            while b"iteration        1/" not in said and (more_said := os.read(program.stdout.fileno(), 65536)):
                said += more_said
            staged = folder / sent.name / ".iter_0000099.generation-1.partial"
            staged.mkdir()  # by a process of an earlier run
            program.send_signal(sent)
            said += program.stdout.read()
            if program.wait(timeout=60) != 0 or not list((folder / sent.name).glob("iter_*")):
                raise wrong(f"{sent.name}: {said.decode()}")
            if staged.exists():
                raise wrong(f"{sent.name}: a staged checkpoint is left of a run that has ended")
    if not list((folder / "run").glob("iter_*")):
        raise wrong("SIGTERM has not saved")


def check_tee(folder):
    """A run in front of `| tee log` draws no bar. Ctrl-C also ends the tee; the last lines and the exit code remain."""
    ours, its = pty.openpty()
    log = folder / "log"
    words = [cli_test.PROGRAM, *map(str, [*TRAIN, "--train-iters", 1000000, "--save", folder / "run"])]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=its, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TERM": "xterm"}) as program:
        with subprocess.Popen(["tee", str(log)], stdin=program.stdout, stdout=its) as tee:
            program.stdout.close()
            os.close(its)
            text, sent = b"", False
            try:
                while more := os.read(ours, 65536):
                    text += more
                    if not sent and b" iteration        1/" in text:
                        sent = True
                        tee.send_signal(signal.SIGINT)
                        program.send_signal(signal.SIGINT)
            except OSError:  # the other end is closed
                pass
            code = program.wait(timeout=60)
    os.close(ours)
    text = text.decode()
    if "\x1b[K" in text or "training [" in text:
        raise wrong(f"a bar beside lines of a pipe: {text!r}")
    if code != 0 or "Broken pipe" in text or "saved iteration" not in text:
        raise wrong(f"Ctrl-C with a tee: exit code {code}: {text[-600:]!r}")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
