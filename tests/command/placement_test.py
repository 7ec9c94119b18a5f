"""Checks which process runs on which host and keeps which states: in `troupe layout`, --dry-run and the run. By ctest.

    placement_test.py PROGRAM NAME...   runs the named checks, or all
"""

import json
import os
import re
import subprocess
import sys

import cli_test
import host_runs
from cli_test import refuses, works, wrong
from host_runs import ENDLESS, end_host, goes_on, node, over, require_undisturbed, says
from process_runs import JOB, PIPELINE, job, require_same

WORDS = [*PIPELINE, "--train-iters", 4]


def forecast(*words):
    """For each process, the process that keeps its states, according to --dry-run."""
    said = works(*JOB, *WORDS, "--dry-run", *words)
    return {int(kept): int(by) for by, kept in re.findall(r"process (\d+) .*two newest states of process (\d+)'s ranks", said)}


def hosts_forecast(*words):
    """The host of each process, according to --dry-run."""
    return re.findall(r"^process \d+ +ranks .*? on (\S+), ", works(*JOB, *WORDS, "--dry-run", *words), re.MULTILINE)


def racks_of(folder, **racks):
    """A file of failure domains: racks_of(folder, x="a b") has a and b in x."""
    file = folder / "racks.txt"
    file.write_text("# host domain\n\n" + "".join(f"{host} {rack}  # here\n" for rack, all in racks.items()
                                                  for host in all.split()))
    return ["--failure-domains", file]


def kept_in(one):
    """For each process, the process that keeps its states and its host, according to the run's log."""
    told = re.findall(r"the states of process (\d+)'s ranks \(host '(.*?)'\) are kept in process (\d+) \(host '(.*?)'\)",
                      one.out.read_text())
    return {int(x): int(by) for x, _, by, _ in told}, {int(x): host for x, host, _, _ in told}


def check_told(folder):
    """Decides by the hosts in --nodes alone, without asking the nodes."""
    cases = [("a:1,a:2,a:3,a:4", {0: 1, 1: 2, 2: 3, 3: 0}),
             ("a:1,a:2,b:1,b:2", {0: 2, 1: 3, 2: 0, 3: 1}),
             ("b:1,a:1,b:2,a:2", {0: 1, 1: 0, 2: 3, 3: 2}),
             ("b:1,c:1,a:1,b:2", {0: 1, 1: 0, 2: 3, 3: 2})]
    for nodes, keepers in cases:
        told = forecast("--nodes", nodes, "--insecure")
        hosts = [x.split(":")[0] for x in nodes.split(",")]
        if "b" in hosts and any(hosts[x] == hosts[by] for x, by in keepers.items()):
            raise wrong(f"the test expects {keepers} over {nodes} on one host")
        if told != keepers:
            raise wrong(f"over {nodes} the dry run has the keepers {told}, expected {keepers}")
    if (told := forecast("--processes", 4)) != cases[0][1]:
        raise wrong(f"on this host the dry run has the keepers {told}")
    racks = racks_of(folder, x="a c", y="b d")
    for words, hosts, keepers in [
            (["--nodes", "a:1,b:1", "--processes", 4], "a a b b", {0: 2, 1: 3, 2: 0, 3: 1}),
            (["--nodes", "a:1*2,b:1*2"], "a a b b", {0: 2, 1: 3, 2: 0, 3: 1}),
            (["--nodes", "a:1,b:1*3"], "a b b b", {0: 3, 1: 0, 2: 1, 3: 2}),
            (["--nodes", "a:1*4"], "a a a a", {0: 1, 1: 2, 2: 3, 3: 0}),
            (["--nodes", "a:1,b:1,c:1,d:1", *racks], "a c b d", {0: 2, 1: 3, 2: 0, 3: 1})]:
        words = [*words, "--insecure"]
        if hosts_forecast(*words) != hosts.split() or forecast(*words) != keepers:
            raise wrong(f"{words}: the hosts {hosts_forecast(*words)} with the keepers {forecast(*words)}")


def check_uneven(folder):
    """Hosts that processes cannot share evenly, and wrong files of failure domains, are refused by name."""
    train = [*JOB, *WORDS, "--insecure", "--dry-run", "--nodes"]
    refuses("--nodes names 3 nodes, but the run has 4 processes (--processes), and without numbers all nodes "
            "have equally many; nearest valid: 2 or 4 nodes, or a:1*2,b:1*1,c:1*1", *train, "a:1,b:1,c:1", "--processes", 4)
    refuses("nearest valid: 2 nodes", *train, "a:1,b:1,c:1", "--processes", 2)
    refuses("nearest valid: 1 or 3 nodes", *train, "a:1,b:1", "--processes", 3)
    refuses("--nodes has room for 5 processes, but the run has 4 (--processes): give --processes 5, or other "
            "numbers after '*'", *train, "a:1*2,b:1*3", "--processes", 4)
    refuses("'a:1*...' has no number of processes after the '*': give a whole number from 1 to 65536",
            *train, "a:1*x,b:1")
    refuses("--spare-nodes: 'c:1*...'", *train, "a:1,b:1", "--spare-nodes", "c:1*0")
    refuses("has no domain for the host 'c': add a line 'c DOMAIN'", *train, "a:1,b:1", "--spare-nodes", "c:1",
            *racks_of(folder, x="a b"))
    refuses("line 4: host 'a' is in 'x' and in 'y'", *train, "a:1,b:1", *racks_of(folder, x="a", y="a b"))
    (folder / "bad.txt").write_text("a x\nb\n")
    refuses("line 2: 'b' is not a host and its domain", *train, "a:1,b:1", "--failure-domains", folder / "bad.txt")
    refuses("none.txt", *train, "a:1,b:1", "--failure-domains", folder / "none.txt")
    refuses("--failure-domains needs --nodes", *JOB, *WORDS, "--dry-run", "--failure-domains", "x")
    layout = ["layout", "--world-size", 8, "--tensor-model-parallel-size", 2]
    refuses("--hosts names 3 hosts, but the run has 8 processes (--processes), and without numbers all hosts "
            "have equally many; nearest valid: 2 or 4 hosts, or host-0*3,host-1*3,host-2*2", *layout, "--hosts", 3)
    refuses("'a' twice", *layout, "--hosts", "a,a")
    refuses("--processes 9 is more than the 8 ranks", *layout, "--hosts", 1, "--processes", 9)
    refuses("--processes needs --hosts", *layout, "--processes", 2)


PICTURE = """8 ranks in the order tp-cp-ep-dp-pp: tp 2 cp 1 dp 2 pp 2 etp 2 ep 1 edp 2

host  domain  processes  ranks  states kept on
a     -       0-3        0-3    b
b     -       4-7        4-7    a

axis  groups  on one host  on several  most hosts
TP    4       4            0           1
DP    4       4            0           1
PP    4       0            4           2
"""
OVER = "warning: 1 of 4 tensor groups have ranks on several hosts, such as [2,3]: each layer then waits for the " \
       "network; give each host a multiple of 2 ranks"


def check_layout(folder):
    """`troupe layout --hosts`: exact pictures, warnings, and 65,536 ranks on 8,192 hosts."""
    words = ["layout", "--world-size", 8, "--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 2]
    if (page := works(*words, "--hosts", "a,b")) != PICTURE:
        raise wrong(f"the picture is\n{page}")
    if OVER not in (page := works(*words, "--hosts", "a*3,b*5")):
        raise wrong(f"no warning of tensor groups over hosts:\n{page}")
    page = works(*words, "--hosts", 4, "--processes", 4)
    if "warning" in page or "host-3  -       3          6-7    host-0" not in page:
        raise wrong(f"four hosts:\n{page}")
    found = json.loads(works(*words, "--hosts", "a,b,c,d", *racks_of(folder, x="a c", y="b d"), "--json"))
    at = {x["host"]: x["ranks"] for x in found["hosts"]}
    if at != {"a": [0, 1], "c": [2, 3], "b": [4, 5], "d": [6, 7]}:
        raise wrong(f"hosts of one rack are not neighbours: {at}")
    racks = {"a": "x", "c": "x", "b": "y", "d": "y"}
    for x in found["processes"]:
        if racks[x["host"]] == racks[found["processes"][x["keeper"]]["host"]]:
            raise wrong(f"process {x['process']} and its keeper are in one rack: {found['processes']}")
    if found["spans"][0] != {"axis": "tp", "groups": 4, "crossing": 0, "most_hosts": 1}:
        raise wrong(f"spans {found['spans']}")
    if "the states of 4 processes are kept in their own failure domain" not in (page := works(
            "layout", "--hosts", "a*6,b*2", "--world-size", 8, *racks_of(folder, x="a", y="b"))):
        raise wrong(f"a domain with most processes:\n{page}")
    model = ["--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4, "--seq-length", 32,
             "--vocab-size", 128, "--micro-batch-size", 2, "--global-batch-size", 16,
             "--hosts", 2, "--tokenizer-type", "NullTokenizer"]
    spans = {x["axis"]: x for x in json.loads(works("layout", "gpt", *words[1:], *model, "--json"))["spans"]}
    if (spans["pp"]["crossing"], spans["tp"]["crossing"]) != (4, 0):
        raise wrong(f"a model's layout: {spans}")
    if not 0 < spans["pp"]["received"] < spans["tp"]["received"]:
        raise wrong(f"a model's layout: {spans}")
    if "a rank receives in a step" not in works("layout", "gpt", *words[1:], *model):
        raise wrong("the page of a model does not show what ranks receive")
    refuses("--hosts is missing", "layout", "gpt", *words[1:], *model[:-4])
    found = json.loads(works("layout", "--world-size", 65536, "--tensor-model-parallel-size", 8,
                             "--pipeline-model-parallel-size", 8, "--hosts", 8192, "--json"))
    if len(found["hosts"]) != 8192 or found["warnings"] or found["hosts"][-1]["ranks"] != [*range(65528, 65536)]:
        raise wrong(f"65536 ranks on 8192 hosts: {found['warnings']}, {found['hosts'][-1]}")


def check_one_host(folder):
    """Four processes on one host, started by the command or by nodes."""
    nodes, credentials = host_runs.hosts(folder, 4)
    for where, processes in ((["--processes", 4], 4), (host_runs.over(nodes, credentials), 4)):
        one = job(folder, *WORDS, *where, processes=processes).ends()
        kept, hosts = kept_in(one)
        if kept != forecast(*where) or len(kept) != 4 or len(set(hosts.values())) != 1:
            raise one.fails(f"with {where} states are kept in {kept}, expected {forecast(*where)}")
        if "processes of one host keep each other's states" not in one.out.read_text():
            raise one.fails("no warning that one host has all states")


def check_two_hosts(folder):
    """Two processes on each of two hosts, which have different names: each state is kept on the other host."""
    named = lambda x: ["unshare", "--uts", "sh", "-c", f'hostname {x} && exec "$@"', "sh"]  # noqa: E731
    if subprocess.run([*named("host-z"), "true"], capture_output=True).returncode != 0:
        print("skipped: no permission to set a host name")
        sys.exit(77)
    credentials = host_runs.keys(folder)
    nodes = [node(folder, credentials=credentials, listen=f"127.0.0.{number}:0", within=named(name))
             for number, name in ((3, "host-z"), (3, "host-z"), (2, "host-a"), (2, "host-a"))]
    where = host_runs.over(nodes, credentials)
    one = job(folder, *WORDS, *where, "--local-addr", "127.0.0.1", processes=4).ends()
    kept, hosts = kept_in(one)
    if hosts != {0: "host-z", 1: "host-z", 2: "host-a", 3: "host-a"}:
        raise one.fails(f"the processes are on the hosts {hosts}")
    if kept != forecast(*where) or any(hosts[x] == hosts[by] for x, by in kept.items()):
        raise one.fails(f"states are kept in {kept}, but the dry run said {forecast(*where)}")


def check_two_each(folder):
    """Two processes on each of two nodes, and one and three: the bits of one process."""
    nodes, credentials = host_runs.hosts(folder, 2)
    wanted = job(folder, *WORDS, processes=1).ends()
    a, b = (x.at for x in nodes)
    for names, said in ((f"{a},{b}", ("serves processes 0 to 1", "serves processes 2 to 3")),
                        (f"{a},{b}*3", ("serves process 0", "serves processes 1 to 3"))):
        one = job(folder, *WORDS, "--nodes", names, "--credentials", credentials, processes=4).ends()
        require_same(one, wanted, f"over {names}")
        for at, text in zip(nodes, said):
            at.until(f"it prints '{text}'", lambda: f" {text} of the run" in at.text())
            at.until("the node is free", lambda: at.text().count("is over here") == at.text().count(" serves process"))


def check_cores(folder):
    """A node tells its cores, and the run names the one that has too few for its workers."""
    credentials = host_runs.keys(folder)
    narrow = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    nodes = [node(folder, credentials=credentials, within=narrow), node(folder, credentials=credentials)]
    one = job(folder, *WORDS, *over(nodes, credentials), processes=4).ends()
    if f" the node at {nodes[0].at} has 1 core, which 2 workers of 1 thread share" not in one.out.read_text():
        raise one.fails("no line about the cores of the first node")


def check_rack_lost(folder):
    """A host with two processes is lost. Its rack keeps none of their states, and both move to the spare."""
    few = ["--suspicion-seconds", 3]
    credentials = host_runs.keys(folder)
    nodes = [node(folder, *few, credentials=credentials, listen=f"127.0.0.{number}:0") for number in (2, 3, 4)]
    racks = racks_of(folder, x="127.0.0.2", y="127.0.0.3", z="127.0.0.4")
    one = job(folder, *ENDLESS, *few, *over(nodes[:2], credentials, nodes[2:]), *racks, "--local-addr", "127.0.0.1",
              processes=4)
    one.reaches(10)
    kept, _ = kept_in(one)
    if kept != {0: 2, 1: 3, 2: 0, 3: 1}:
        raise one.fails(f"states are kept in {kept}")
    end_host(nodes[1])
    says(one, f"process:2 moves to the node at {nodes[2].at} (", f"process:3 moves to the node at {nodes[2].at} (",
         "with a peer's copy of the state")
    goes_on(one)
    if any("from the start of the run" in str(x) for x in one.restarts()):
        raise one.fails(f"states were lost: {one.restarts()}")
    require_undisturbed(folder, one, "the loss of a host with two processes")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
