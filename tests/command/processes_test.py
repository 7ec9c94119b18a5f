"""Runs over several processes from the command line: same bits, same output, and nothing left behind. Run by ctest.

    processes_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import cli_test
from cli_test import refuses, works, wrong
from process_runs import (ENDLESS, EXPERTS, JOB, JOBS, JUDGED, LONG, LONG_STEPS, PATIENCE, PIPELINE, SHARED, digests,
                          job, killed, pending, replaced, require_same, require_same_files)


def same(folder, *words):
    """Checks that one, two and four processes have the same bits."""
    one = job(folder, *words, processes=1).ends()
    for n in (2, 4):
        require_same(job(folder, *words, processes=n).ends(), one, f"in {n} processes")


def check_pipelines(folder):
    same(folder, *PIPELINE, "--train-iters", 8)
    same(folder, *PIPELINE, "--train-iters", 4, "--plant-delays", "7,300,300")


def check_tensors(folder):
    same(folder, "--world-size", 4, "--tensor-model-parallel-size", 2, "--sequence-parallel", "--train-iters", 6)


def check_experts(folder):
    """Rows travel to experts of other processes, through windows. All numbers of expert ranks have the same bits."""
    four = job(folder, *SHARED, "--train-iters", 6, processes=1).ends()
    for ranks, dispatcher in ((1, "alltoall"), (2, "allgather"), (4, "alltoall")):
        for n in (2, 4):
            one = job(folder, "--world-size", 4, *EXPERTS, "--expert-model-parallel-size", ranks, "--train-iters", 6,
                      "--moe-token-dispatcher-type", dispatcher, processes=n).ends()
            require_same(one, four, f"on {ranks} expert ranks in {n} processes")
    same(folder, "--world-size", 4, *EXPERTS, "--tensor-model-parallel-size", 2, "--sequence-parallel",
         "--expert-model-parallel-size", 2, "--expert-tensor-parallel-size", 2, "--use-distributed-optimizer",
         "--overlap-grad-reduce", "--train-iters", 4)


def check_sharded(folder):
    same(folder, *PIPELINE, "--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather",
         "--train-iters", 8)


def check_formats(folder):
    same(folder, *PIPELINE, "--bf16", "--train-iters", 6)
    same(folder, *PIPELINE, "--pipeline-schedule", "zb-h1", "--train-iters", 6)


def check_checkpoints(folder):
    """Several processes write the same checkpoints as one process, and either resumes from the other's."""
    words = [*PIPELINE, "--train-iters", 8]
    saves = [folder / f"save-{n}" for n in (1, 2)]
    ran = [job(folder, *words, "--save", saves[n - 1], "--save-interval", 4, processes=n).ends() for n in (1, 2)]
    require_same(ran[1], ran[0], "in 2 processes")
    for step in ("iter_0000004", "iter_0000008"):
        works("checkpoint", "diff", saves[0] / step, saves[1] / step)
        require_same_files(*(x / step for x in saves))
    if any(x.name.endswith(".partial") for x in saves[1].iterdir()):
        raise ran[1].fails(f"a partial checkpoint is left: {sorted(saves[1].iterdir())}")
    for n in (1, 2):
        resumed = job(folder, *words, "--load", saves[1] / "iter_0000004", processes=n).ends()
        if digests(resumed) != digests(ran[0])[4:]:
            raise resumed.fails(f"resumed in {n} processes: {digests(resumed)}, expected {digests(ran[0])}")


def check_memory(folder):
    """The states that a process keeps for another have the size that --dry-run forecasts."""
    for words in ([*PIPELINE, "--train-iters", 4], ["--world-size", 3, "--global-batch-size", 6, "--train-iters", 4,
                                                    "--use-distributed-optimizer"]):
        said = works(*JOB, *words, "--processes", 2, "--dry-run")
        forecast = dict(re.findall(r"process (\d+) .*two newest states of process \d+'s ranks (.*?), and", said))
        one = job(folder, *words).ends()
        logs = {x.stem.removeprefix("node-"): x.read_text() for x in (one.run / "logs").glob("node-*.log")}
        kept = {p: "".join(re.findall(r"kept states of another process's ranks: (.*), the two newest of each", text))
                for p, text in logs.items()}
        if len(kept) != 2 or kept != forecast:
            raise one.fails(f"forecast {forecast}, kept {kept}:\n{said}")
        print("memory: kept", kept)


def arrays_of_others(pid):
    """Inodes of arrays that the process has mapped: those of other processes (read-only), and its own (writable)."""
    lines = [x.split() for x in open(f"/proc/{pid}/maps") if "/memfd:troupe arrays" in x]
    return {x[4] for x in lines if "w" not in x[1]}, {x[4] for x in lines if "w" in x[1]}


def check_mapped(folder):
    """Replicas read each other's arrays through shared mappings, without a copy by the kernel."""
    for words in (["--world-size", 2], ["--world-size", 2, "--use-distributed-optimizer", "--overlap-grad-reduce",
                                        "--overlap-param-gather"],
                  ["--world-size", 4, "--bf16", "--use-distributed-optimizer"],
                  ["--world-size", 2, "--replicas-per-worker", 2, "--recovery", "off"]):
        one = job(folder, *words, "--train-iters", 4).ends()
        for at in sorted((one.run / "logs").glob("node-*.log")):
            taken = re.findall(r"of other processes' arrays: (.*) summed or copied where they lie, (.*) read by the "
                               r"kernel, (.*) received", at.read_text())
            if len(taken) != 1 or taken[0][0] == "0 B" or taken[0][1:] != ("0 B", "0 B"):
                raise one.fails(f"{words}: {at.name} has {taken}")
            print("mapped:", *words, at.name, taken[0])
    # The arrays of a dead process are released by processes that had mapped them, and not taken over by its
    # replacement.
    one = job(folder, "--world-size", 2, "--use-distributed-optimizer", "--train-iters", 100000)
    one.reaches(10)
    beside = one.node(0)["pid"]
    wanted, own = map(len, arrays_of_others(beside))
    if not wanted or not own:
        raise one.fails(f"process 0 maps {wanted} arrays of others, and has {own}")
    for iteration in (20, 30, 40):
        dead = killed(one, 1)
        replaced(one, 1, dead)
        one.reaches(one.steps()[-1]["iteration"] + 10)
        alive = arrays_of_others(one.node(1)["pid"])[1]
        one.until("only arrays of live processes are mapped",
                  lambda: arrays_of_others(beside)[0] <= alive and len(arrays_of_others(beside)[1]) == own)
    one.process.terminate()
    one.ends()


def check_relative(folder):
    """A relative path names the same file in all processes, and is not part of an identity or configuration."""
    tok = cli_test.tokenizer(folder)
    works("preprocess", "--input", folder / "text.txt", "--tokenizer", tok, "--output-prefix", folder / "d", "--append-eod")
    data, = {x.stem for x in folder.glob("d*.idx")}
    mock = JOB.index("--mock-data")
    words = [*JOB[:mock], *JOB[mock + 1:]]
    for flag in ("--tokenizer-type", "--vocab-size"):
        del words[words.index(flag):words.index(flag) + 2]
    command = [cli_test.PROGRAM, *map(str, [*words, *PIPELINE, "--recovery", "on", "--tokenizer", tok,
                                            "--save", "saved", "--load", "saved", "--log-file", "log.jsonl",
                                            "--data-path", data, "--data-cache-path", "cache"])]
    found = {}
    for n in (1, 2):
        here = folder / f"in-{n}"
        here.mkdir()
        for file in folder.glob("d*.*"):
            (here / file.name).write_bytes(file.read_bytes())
        for until in (3, 6):  # the second run resumes the first
            done = subprocess.run([*command, "--train-iters", "6", "--exit-interval", str(until), "--processes", str(n)],
                                  cwd=here, capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode != 0:
                raise wrong(f"{n} processes: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        manifest = json.loads((here / "saved" / "iter_0000006" / "manifest.json").read_text())
        log = [json.loads(x) for x in (here / "log.jsonl").read_text().splitlines()]
        configuration = [x for x in (here / "saved" / "config.yaml").read_text().splitlines()
                         if "processes" not in x and not x.startswith("#")]
        found[n] = (manifest, configuration, [x["state_digest"] for x in log if "state_digest" in x],
                    sorted(x.name for x in here.iterdir()))
    if found[1] != found[2] or len(found[1][2]) < 3:
        raise wrong(f"in one process\n{found[1]}\nin two\n{found[2]}")


def check_judge(folder):
    """Makes the run that tests of deaths compare with (JUDGED)."""
    made = job(folder, *LONG, processes=1).ends()
    if [x for x, _ in digests(made)] != list(range(1, LONG_STEPS + 1)):
        raise made.fails(f"the log has the steps {[x for x, _ in digests(made)]}")
    if JUDGED:
        shutil.copy(made.log, JUDGED + ".part")
        os.replace(JUDGED + ".part", JUDGED)


def check_refused_there(folder):
    """The front reports refusals of the supervisor's process like a run in one process does."""
    save = folder / "save"
    one = job(folder, *ENDLESS, "--save", save)
    one.reaches(1)
    temporary = folder / "nothing"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    for words in (["--save", save], ["--run", one.run], ["--load", folder / "none"],
                  ["--log-file", one.log]):
        said = []
        for n in (1, 2):
            done = subprocess.run([cli_test.PROGRAM, *map(str, [*JOB, *ENDLESS, "--processes", n, *words])],
                                  capture_output=True, text=True, timeout=PATIENCE, env=environment)
            said.append((done.returncode, done.stderr))
        if said[0] != said[1] or said[0][0] != 2 or not said[0][1].startswith("troupe: error: "):
            raise one.fails(f"with {words[0]} one process prints {said[0]}, two print {said[1]}")
        if left := list(temporary.iterdir()):
            raise one.fails(f"a refused run left {left}")
    one.process.terminate()
    one.ends()


def check_shown_as_one(folder):
    """Two processes show the same output as one, on the same streams."""
    for more in ([], ["--quiet"], ["--log-level", "error"]):
        streams = []
        for n in (1, 2):
            done = subprocess.run([cli_test.PROGRAM, *map(str, [*JOB, *PIPELINE, "--train-iters", 3, *more,
                                                                "--recovery", "on", "--processes", n])],
                                  capture_output=True, text=True, timeout=PATIENCE)
            # Without times, sizes, and lines about memory and processes, which differ.
            streams.append([[" ".join(x for x in line.split() if not any(map(str.isdigit, x)))
                             for line in text.splitlines() if not any(x in line for x in ("memory", "processes", " keeps ", " are kept in "))]
                            for text in (done.stdout, done.stderr)])
        if streams[0] != streams[1] or (not more and not all(streams[0])):
            raise wrong(f"{more}: in one process\n{streams[0]}\nin two\n{streams[1]}")


def check_asked_to_end(folder):
    """After SIGTERM the run finishes its step, saves, and ends in order."""
    save = folder / "save"
    one = job(folder, *PIPELINE, "--train-iters", 100000, "--save", save)
    one.reaches(5)
    one.process.terminate()
    one.ends()
    newest = int((save / "latest_checkpointed_iteration.txt").read_text())
    if newest != one.steps()[-1]["iteration"]:
        raise one.fails(f"saved iteration {newest}, expected {one.steps()[-1]['iteration']}")
    works("checkpoint", "verify", save / f"iter_{newest:07}")


def check_asked_early(folder):
    """A run that is ended while its processes start does not wait for them, and leaves nothing."""
    def starting(one):
        return [x for x in one.left() if b"\0incarnation\0" in pathlib.Path(f"/proc/{x}/cmdline").read_bytes()]

    def stands_still(one):
        """Stops one starting process. Waiting for it would take three suspicion timeouts of this run."""
        at = one.until("a process is started", lambda: starting(one))[0]
        os.kill(at, signal.SIGSTOP)
        return at
    hardly_ever = ["--suspicion-seconds", 10 * PATIENCE]
    for ask in (lambda x: x.process.send_signal(signal.SIGINT), lambda x: works("stop", "--run", x.run)):
        one = job(folder, *ENDLESS, *hardly_ever, "--save", folder / f"save-{len(JOBS)}", processes=4)
        stands_still(one)
        ask(one)
        one.ends()
        if "stopped before the first iteration; nothing was trained or saved" not in one.text():
            raise one.fails("no report that nothing was trained")
        if one.steps() or one.status()["ended"]["exit_code"] != 0 or "refused" in one.out.read_text():
            raise one.fails(f"the status is {one.status()}")
    one = job(folder, *ENDLESS, *hardly_ever, processes=4)
    agent = one.until("the agent runs", lambda: one.run.exists() and one.processes("agent"))[0]["pid"]
    os.kill(agent, signal.SIGSTOP)  # so that the first signal cannot end the run
    one.process.send_signal(signal.SIGINT)
    one.until("the first signal is delivered", lambda: not pending(one.process.pid))  # otherwise the kernel merges both
    one.process.send_signal(signal.SIGINT)
    one.ends(128 + signal.SIGINT)


def check_any_bytes(folder):
    """Paths need not be UTF-8, in one and in several processes: run folder, logs, data, tokenizer, checkpoints,
    temporary files."""
    odd = folder / os.fsdecode(b"odd \xff")
    odd.mkdir()
    text, tok = odd / "text.jsonl", odd / "tok"
    text.write_text("".join(json.dumps({"text": f"{i} and {i + 1} are numbers"}) + "\n" for i in range(200)))
    works("tokenizer", "train", "--input", text, "--vocab-size", 300, "--output", tok)
    works("preprocess", "--input", text, "--output-prefix", odd / "data", "--tokenizer", tok, "--append-eod")
    data, = (x.stem for x in odd.glob("data*.bin"))
    drop = ("--mock-data", "--vocab-size", 128, "--tokenizer-type", "NullTokenizer")
    words = [*(x for x in JOB if x not in drop), *PIPELINE, "--data-path", odd / data, "--split", "1,0,0",
             "--tokenizer", tok, "--data-cache-path", odd / "cache"]
    ran = {}
    for n in (1, 2):
        save = odd / f"save-{n}"
        ran[n] = job(odd, "--train-iters", 4, "--save", save, processes=n, base=words).ends()
        resumed = job(odd, "--train-iters", 6, "--save", save, "--load", save, "--override-opt_param-scheduler",
                      processes=n, base=words).ends()
        ran[n, "on"] = resumed
    require_same(ran[2], ran[1], "in 2 processes")
    if digests(ran[2, "on"]) != digests(ran[1, "on"]) or len(digests(ran[1, "on"])) != 2:
        raise ran[2, "on"].fails(f"resumed: {digests(ran[2, 'on'])}, expected {digests(ran[1, 'on'])}")
    one = job(odd, "--train-iters", LONG_STEPS, base=words)
    one.reaches(1)
    replaced(one, 1, killed(one, 1))
    one.process.terminate()
    one.ends()
    temporary = job(odd, "--train-iters", 4, temporary=True, base=words).ends()
    require_same(temporary, ran[1], "in a temporary folder")


def check_refused(folder):
    job_of = [*JOB, *PIPELINE, "--train-iters", 2]
    refuses("--processes", *job_of, "--processes", 5)
    refuses("nccl-fast", *job_of, "--processes", 2, "--backend", "cuda", "--collectives", "nccl-fast")
    # Starts a node by hand, with a rendezvous port on which no process listens.
    one = job(folder, *PIPELINE, "--train-iters", 100000)
    one.reaches(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, out, err = cli_test.run("troupe:node", "run", one.run, "process", 0, "incarnation", 9, "rendezvous",
                                  f"127.0.0.1:{port}", "address", "127.0.0.1", "suspicion", 2)
    if code != 2 or err.count("troupe: ") != 1 or f"127.0.0.1 port {port}" not in err:
        raise one.fails(f"a node with a wrong port: exit code {code}:\n{err}")
    one.process.terminate()
    one.ends()


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
