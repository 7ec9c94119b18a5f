"""For tests: hosts as namespaces of this machine, with Slurm, ssh and Open MPI as Debian ships them.

Each host has its own network, processes, name, shared memory, /etc/hosts and /run. All share the machine's files, as
hosts with a common file system do. Nothing of the machine's own configuration is used or changed. The kernel ends
everything when the test ends, however it ends."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import cli_test
from cli_test import wrong
from host_runs import cmdline
from process_runs import PATIENCE

SKIPPED = 77
NETWORK = "10.213.9"
NAMESPACES = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
# The first process of a host. Bash waits, so it also collects processes that lost their parent.
FIRST = """
hostname "$1"
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
mount --bind "$2" /etc/hosts
ip link set lo up
[ "$1" != head ] || { ip link add switch type bridge && ip addr add "$3/24" dev switch && ip link set switch up; }
echo up
sleep infinity & wait
"""
SLURM_CONF = """
ClusterName=test
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,requeue_delay=1,bf_interval=1
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdTimeout=10
KillWait=20
MinJobAge=300
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
NodeName={names} CPUs={tasks} State=UNKNOWN
"""


def path_of(program):
    """Also of a daemon, whose folder only root's PATH has."""
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def require_programs(*names):
    """Skips the test if a program is not installed, and says how to install it."""
    for name in names:
        if not path_of(name):
            print(f"skipped: no '{name}' here; `bash examples/install_packages.sh cluster` installs it")
            sys.exit(SKIPPED)


def until(what, holds, text=lambda: "", within=PATIENCE):
    end = time.monotonic() + within
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.1)
    raise wrong(f"not within {within} s: {what}\n{text()}")


class machine:
    """One host."""

    def __init__(self, folder, name, address):
        self.name, self.address = name, address
        # The kernel kills it with the test, and all processes of the namespaces with it.
        self.outer = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *NAMESPACES, "bash", "-ec", FIRST, "-", name,
                                       folder / "hosts", address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
        if (said := self.outer.stdout.readline()) != "up\n":
            self.ends()
            print(f"skipped: this user may not make a host of namespaces: {said.strip()}")
            sys.exit(SKIPPED)
        self.pid = int(pathlib.Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()[0])

    def within(self):
        return ["nsenter", "--target", str(self.pid), "--net", "--mount", "--uts", "--pid", "--root",  # also below chroot
                "--wdns=/"]

    def start(self, *words, out=subprocess.DEVNULL, environment=None):
        return subprocess.Popen([*self.within(), *map(str, words)], stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.STDOUT, env=environment)

    def run(self, *words, environment=None, timeout=PATIENCE):
        """The exit code, and what it printed."""
        done = subprocess.run([*self.within(), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, env=environment)
        return done.returncode, done.stdout

    def works(self, *words, **how):
        code, out = self.run(*words, **how)
        if code != 0:
            raise wrong(f"{' '.join(map(str, words))} on {self.name}: exit code {code}\n{out}")
        return out

    def pids(self):
        """All its processes; none after its end."""
        found = []
        with contextlib.suppress(OSError):
            inside = os.readlink(f"/proc/{self.pid}/ns/pid")
            for at in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if os.readlink(at / "ns/pid") == inside:
                        found.append(int(at.name))
        return found

    def processes(self, word=None):
        """Its processes of the program, or those with this word on their command line."""
        name, found = pathlib.Path(cli_test.PROGRAM).name, []
        for pid in self.pids():
            words = os.fsdecode(cmdline(pid)).split("\0")
            if name in [os.path.basename(x) for x in words[:2]] and (not word or word in words):
                found.append(pid)
        return found

    def ends(self):
        """Ends the host at once, with all its processes and its network."""
        if self.outer.poll() is None:
            with contextlib.suppress(AttributeError, ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.outer.kill()
        self.outer.wait()
        self.outer.stdout.close()


class machines:
    """`head` and a number of hosts `node1`, `node2`, ... on one network. They know each other by name."""

    def __init__(self, folder, count):
        require_programs("unshare", "nsenter", "setpriv", "ip")
        self.folder = folder / "cluster"
        self.folder.mkdir(mode=0o700)
        names = ["head", *(f"node{n}" for n in range(1, count + 1))]
        at = {name: f"{NETWORK}.{n}" for n, name in enumerate(names, 1)}
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{at[x]} {x}\n" for x in names))
        self.environment = {x: y for x, y in os.environ.items() if not x.startswith(("SLURM", "OMPI_", "PMIX_"))}
        self.temporary = self.folder / "tmp"  # of runs on all hosts
        self.temporary.mkdir()
        self.environment["TMPDIR"] = str(self.temporary)
        self.environment["PATH"] = f"{pathlib.Path(cli_test.PROGRAM).parent}:{os.environ['PATH']}"
        self.all, self.daemons = [], {}
        with self.ended_if_it_fails():
            for name in names:
                self.all.append(machine(self.folder, name, at[name]))
            for one in self.nodes:
                self.connect(one)

    @contextlib.contextmanager
    def ended_if_it_fails(self):
        try:
            yield
        except BaseException:
            self.ends()
            raise

    @property
    def head(self):
        return self.all[0]

    @property
    def nodes(self):
        return self.all[1:]

    def connect(self, one):
        port = f"to-{one.name}"
        # `ip` finds the other host's network by a pid of this machine, so it enters only the network of `head`.
        subprocess.run(["nsenter", "--target", str(self.head.pid), "--net", "ip", "link", "add", port, "type", "veth",
                        "peer", "name", "eth0", "netns", str(one.pid)], check=True, timeout=PATIENCE)
        self.head.works("ip", "link", "set", port, "master", "switch", "up")
        one.works("ip", "addr", "add", one.address + "/24", "dev", "eth0")
        one.works("ip", "link", "set", "eth0", "up")

    def daemon(self, one, program, *words):
        """Starts it on that host. Its output is a log. Named by its full path, because sshd starts itself again."""
        with open(self.folder / f"{program}-{one.name}.log", "w") as out:
            self.daemons[f"{program} of {one.name}"] = one.start(path_of(program), *words, out=out)

    def until_up(self, what, holds):
        def looks():
            if ended := [x for x, process in self.daemons.items() if process.poll() is not None]:
                raise wrong(f"{ended} ended before: {what}\n{self.logs()}")
            return holds()
        until(what, looks, self.logs)

    def logs(self):
        return "".join(f"\n--- {x.name}\n{x.read_text(errors='replace')[-3000:]}"
                       for x in sorted(self.folder.glob("*.log")))

    def ends(self):
        for one in reversed(self.all):
            one.ends()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends()


class slurm(machines):
    """Slurm on them: slurmctld on `head`, a slurmd on each other host."""

    def __init__(self, folder, count=2, tasks=2, **settings):
        """`settings`: replace or add lines of slurm.conf."""
        require_programs("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
        super().__init__(folder, count)
        with self.ended_if_it_fails():
            self.configure(tasks, settings)
            self.daemon(self.head, "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket",
                        *(f"--{x}-file={self.folder}/munge.{x}" for x in ("key", "pid", "seed")))
            self.until_up("munged answers", (self.folder / "munge.socket").exists)
            self.daemon(self.head, "slurmctld", "-D", "-f", self.conf)
            for one in self.nodes:
                self.daemon(one, "slurmd", "-D", "-N", one.name, "-f", self.conf)
            self.until_up("all hosts of Slurm are idle", lambda: self.states() == ["idle"] * count)

    def configure(self, tasks, settings):
        text = SLURM_CONF.format(folder=self.folder, names=f"node[1-{len(self.nodes)}]", tasks=tasks)
        lines = {**dict(x.split("=", 1) for x in text.split("\n") if x), **settings}
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text("".join(f"{x}={y}\n" for x, y in lines.items()))
        # This version sets up nothing before it is used, and nothing here uses it: it needs no cgroups and no systemd.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        self.environment["SLURM_CONF"] = str(self.conf)

    def states(self):
        code, out = self.head.run("sinfo", "-h", "-N", "-o", "%t", environment=self.environment)
        return out.split() if code == 0 else []

    def run(self, *words, **how):
        return self.head.run(*words, environment=self.environment, **how)

    def works(self, *words, **how):
        return self.head.works(*words, environment=self.environment, **how)

    def submit(self, out, *words):
        """Gives a script to sbatch. The number of the job."""
        return self.works("sbatch", "--parsable", "--output", out, *words).strip()

    def job(self, number):
        """What Slurm says of a job."""
        code, out = self.run("scontrol", "show", "job", "-o", number)
        return dict(x.split("=", 1) for x in out.split() if "=" in x) if code == 0 else {}


class ssh_hosts(machines):
    """An sshd on each host, with keys of the test's own. In `environment` Open MPI's mpirun uses the same ssh."""

    def __init__(self, folder, count=2):
        require_programs("sshd", "ssh", "ssh-keygen")
        super().__init__(folder, count)
        with self.ended_if_it_fails():
            for key in ("host_key", "user_key"):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", self.folder / key],
                               check=True, timeout=PATIENCE)
            self.write("sshd.conf", HostKey=self.folder / "host_key", StrictModes="no", UsePAM="no", PidFile="none",
                       PasswordAuthentication="no", KbdInteractiveAuthentication="no", MaxStartups="100",
                       SetEnv=" ".join(f'{x}="{self.environment[x]}"' for x in ("PATH", "TMPDIR")))
            public = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
            known = self.folder / "known_hosts"
            known.write_text("".join(f"{one.name} {public}\n" for one in self.nodes))
            config = self.write("ssh.conf", IdentityFile=self.folder / "user_key", IdentitiesOnly="yes",
                                UserKnownHostsFile=known, GlobalKnownHostsFile="/dev/null", StrictHostKeyChecking="yes",
                                BatchMode="yes", ConnectTimeout=10, LogLevel="ERROR")
            self.environment["SSH"] = ssh = f"ssh -F {config}"
            for one in self.nodes:
                shutil.copy(self.folder / "user_key.pub", self.keys_of(one))
                self.daemon(one, "sshd", "-D", "-e", "-f", self.folder / "sshd.conf",
                            "-o", f"AuthorizedKeysFile={self.keys_of(one)}")
            for one in self.nodes:
                self.until_up(f"sshd of {one.name} answers",
                              lambda: self.head.run(*ssh.split(), one.name, "true")[0] == 0)
            # Root may start it, with more processes than cores. Its files are in the test's folder.
            self.environment.update({f"OMPI_{x}": y for x, y in {
                "ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MCA_rmaps_base_oversubscribe": "1",
                "MCA_hwloc_base_binding_policy": "none", "MCA_orte_tmpdir_base": str(self.folder),
                "MCA_plm_rsh_agent": ssh}.items()})

    def keys_of(self, one):
        """The keys that its sshd accepts."""
        return self.folder / f"authorized-{one.name}"

    def write(self, name, **settings):
        (self.folder / name).write_text("".join(f"{x} {y}\n" for x, y in settings.items()))
        return self.folder / name

    def hostfile(self, *lines):
        at = self.folder / "hostfile"
        at.write_text("".join(x + "\n" for x in lines))
        return at
