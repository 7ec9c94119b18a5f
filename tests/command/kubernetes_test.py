"""The manifest of examples/kubernetes/: its names agree, and the program reads what it sets. Run by ctest.

    kubernetes_test.py PROGRAM ROOT
"""

import os
import pathlib
import re
import subprocess
import sys

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
TEXT = (ROOT / "examples/kubernetes/train.yaml").read_text()
SERVICE, JOB = TEXT.split("\n---\n")


class wrong(Exception):
    pass


def one(pattern, text):
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        raise wrong(f"expected '{pattern}' once, found {found}")
    return found[0]


def require(what, here, there):
    if here != there:
        raise wrong(f"{what}: '{here}' and '{there}' differ")


def check_names():
    """The pods are those of the service, and pod 0 has the name that all look for."""
    service = one(r"^  name: (\S+)", SERVICE)
    require("the label", one(r"^  selector:\n    app: (\S+)", SERVICE), one(r"^      labels:\n        app: (\S+)", JOB))
    require("the label of other hosts", one(r"matchLabels:\n +app: (\S+)", JOB), one(r"    app: (\S+)", SERVICE))
    require("the service", one(r"^      subdomain: (\S+)", JOB), service)
    require("rank 0", one(r"MASTER_ADDR\n +value: (\S+)", JOB), f"{one(r'^  name: (.+)', JOB)}-0.{service}")
    one(r"^      setHostnameAsFQDN: true", JOB)
    for needed in (r"^  clusterIP: None", r"^  publishNotReadyAddresses: true"):
        one(needed, SERVICE)
    one(r"^  completionMode: Indexed", JOB)
    counts = (r"^  completions: (\d+)", r"^  parallelism: (\d+)", r'name: WORLD_SIZE\n +value: "(\d+)"')
    sizes = {one(x, JOB) for x in counts}
    require("the number of pods", len(sizes), 1)
    mounts = re.findall(r"- name: (\S+)\n +mountPath: (\S+)", JOB)
    volumes = set(re.findall(r"^        - name: (\S+).*\n +(?:secret|configMap|persistentVolumeClaim|emptyDir):", JOB,
                             re.MULTILINE))
    require("the volumes", {name for name, _ in mounts}, volumes)
    for _, path in mounts:
        if path != "/dev/shm":
            require(f"the use of {path}", path + "/" in JOB, True)
    require("the secret", one(r"secretName: (\S+)", JOB), one(r"create secret generic (\S+)", SERVICE))


def variables(index):
    """As a pod with that index has them."""
    out = dict(re.findall(r'- name: ([A-Z_]+)\n +value: "?([^"\s]+)', JOB))
    index_field = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    require("the rank", one(r"- name: RANK\n +valueFrom:\n +fieldRef:\n +fieldPath: (\S+)", JOB), index_field)
    return {**out, "RANK": str(index)}


def check_environment():
    """The program takes each pod for its rank, alone on its host."""
    told = variables(1)
    done = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True, timeout=100, env={**os.environ, **told})
    expected = (f"torchrun started this process as rank 1 of {told['WORLD_SIZE']}, local rank 0 of 1; rank 0 is at "
                f"{told['MASTER_ADDR']}, port {told['MASTER_PORT']}.")
    if done.returncode != 0 or expected not in " ".join(done.stdout.split()):
        raise wrong(f"expected '{expected}' in\n{done.stdout}{done.stderr}")


def check_commands():
    """The shell reads the script and the probes, and the program has each flag."""
    script = one(r"- \|\n((?: {14}.*\n)+)", JOB)
    probes = re.findall(r'command: \["/bin/sh", "-c", "(.*)"\]', JOB)
    require("the number of probes", len(probes), 2)
    for shell in (script, *(x.replace('\\"', '"') for x in probes)):
        done = subprocess.run(["sh", "-n"], input=shell, capture_output=True, text=True, timeout=100)
        if done.returncode != 0:
            raise wrong(f"{done.stderr}\n{shell}")
        command = re.search(r"troupe ((?:[a-z]+ )+)", shell)[1].split()
        page = subprocess.run([PROGRAM, *command, "--help"], capture_output=True, text=True, timeout=100).stdout
        for flag in re.findall(r" (--[a-z-]+)", shell):
            if not re.search(rf"^  {flag}\b", page, re.MULTILINE):
                raise wrong(f"`troupe {' '.join(command)}` has no flag {flag}")
    require("the run's folder", {one(r"--run (\S+)", x) for x in probes}, {one(r"--run (\S+)", script)})


def main():
    try:
        for check in (check_names, check_environment, check_commands):
            check()
    except wrong as failure:
        print(f"examples/kubernetes/train.yaml: {failure}")
        return 1
    print("the manifest agrees with itself and with the program")
    return 0


if __name__ == "__main__":
    sys.exit(main())
