"""`troupe doctor` on GPUs and plug-ins, on machines without them or with planted ones. Run by ctest.

    doctor_gpu_test.py PROGRAM BUILD_FOLDER NAME...   runs the named checks, or all

The program is copied, so that no plug-in of the build is in its folder. Its drivers are planted
(tests/support/drivers), its devices emulated (tests/emulator).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import cli_test
from cli_test import wrong

BUILD = None


def doctor(folder, *words, **environment):
    program = folder / "bin" / "troupe"
    if not program.exists():
        program.parent.mkdir()
        shutil.copy(cli_test.PROGRAM, program)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_")}
    done = subprocess.run([program, "doctor", *words], capture_output=True, text=True, timeout=60,
                          env={**clean, **{k: str(v) for k, v in environment.items()}})
    if done.returncode != 0:
        raise wrong(f"doctor {words} {environment}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def flat(text):
    return " ".join(text.split())


def says(folder, *expected, **environment):
    page = flat(doctor(folder, **environment))
    for text in expected:
        if text not in page:
            raise wrong(f"'{text}' is not in the page of {environment}:\n{page}")
    found = json.loads(doctor(folder, "--json", **environment))
    if not found["can_train"] or any(x["missing"] for x in found["findings"]):
        raise wrong(f"a machine without a GPU cannot train: {found['findings']}")
    return found


def notes(found):
    return [x for x in found["findings"] if x["about"] == "GPU"]


def no_gpu_here():
    return not list(pathlib.Path("/dev").glob("nvidia[0-9]*"))


def check_absent(folder):
    """Without a GPU and a plug-in: prints one line and no remedy."""
    if not no_gpu_here():
        return
    (folder / "empty").mkdir()
    for environment in [{}, {"TROUPE_PLUGINS": folder / "empty"}, {"TROUPE_PLUGINS": folder / "not_there"}]:
        found = says(folder, "GPU none: runs compute on processors", **environment)
        if notes(found) or found["gpu"]["seen"] or found["gpu"]["plugins"]["cuda"]["path"]:
            raise wrong(f"doctor reports a fault on a machine without a GPU: {found}")


def check_no_plugin(folder):
    """The machine has a driver, but the build has no CUDA plug-in."""
    found = says(folder, "this build has no CUDA plug-in: runs compute on processors", "fix: build troupe on a machine with nvcc",
                 "the driver sees Planted GPU 0, Planted GPU 1", LD_LIBRARY_PATH=BUILD / "drivers")
    if len(notes(found)) != 1 or found["gpu"]["driver_version"] != "12.4":
        raise wrong(f"{found['gpu']} {notes(found)}")


def check_named_folder(folder):
    """With TROUPE_PLUGINS all plug-ins come from that folder, because plug-ins of one build belong together."""
    doctor(folder)
    beside = folder / "bin" / "libtroupe_cuda.so"
    beside.write_bytes(b"no library at all" * 1000)
    says(folder, f"'{beside}' cannot be opened", LD_LIBRARY_PATH=BUILD / "drivers")
    (folder / "empty").mkdir()
    says(folder, "this build has no CUDA plug-in", LD_LIBRARY_PATH=BUILD / "drivers", TROUPE_PLUGINS=folder / "empty")


def check_damaged(folder):
    plugins = folder / "plugins"
    plugins.mkdir()
    file = plugins / "libtroupe_cuda.so"
    for bytes_, expected in [(b"", "file too short"), (b"no library at all" * 1000, "invalid ELF header")]:
        file.write_bytes(bytes_)
        found = says(folder, f"'{file}' cannot be opened", expected, "fix: build or install it again", TROUPE_PLUGINS=plugins)
        if len(notes(found)) != 1 or found["gpu"]["plugins"]["cuda"]["opened"]:
            raise wrong(f"{found['gpu']} {notes(found)}")


def check_other_build(folder):
    """Refuses a plug-in that names another build, and one that names none."""
    for name, expected in [("other_build", "is of another build of troupe (0.0.0 of long ago, this is"),
                           ("other_headers", "headers of another, this is"),
                           ("no_build", "is of another build of troupe (it does not say which, this is")]:
        plugins = BUILD / "planted_plugins" / name
        found = says(folder, expected, "fix: use the program and its plug-ins of one build", TROUPE_PLUGINS=plugins)
        if found["gpu"]["plugins"]["cuda"]["opened"] or found["gpu"]["seen"]:
            raise wrong(f"a plug-in of another build is used: {found['gpu']}")


def emulated(**environment):
    return {"TROUPE_PLUGINS": BUILD / "emulated", **{f"TROUPE_EMULATED_{k}": v for k, v in environment.items()}}


def check_device(folder):
    """Shows devices and the libraries that compute on them. Slower or missing parts are notes with a remedy."""
    found = says(folder, "device 0", "compute capability 9.0, 4 multiprocessors, 2.15 GB; runs code for 9.0", "device 1",
                 "2 devices can compute: --backend cuda", "attention by troupe",
                 "no cuDNN plug-in: attention uses troupe's own kernels, which are slower", **emulated(DEVICES=2))
    gpu = found["gpu"]
    if [x["number"] for x in gpu["seen"]] != [0, 1] or gpu["seen"][0]["memory"] != 1 << 31:
        raise wrong(f"{gpu}")
    if gpu["cuda"] != {"driver": "13.0", "runtime": "13.0"} or not gpu["plugins"]["cuda"]["library"].startswith("cuBLASLt "):
        raise wrong(f"{gpu}")
    nccl = gpu["plugins"]["nccl"]
    if nccl["path"] and not (nccl["opened"] and nccl["library"].startswith("NCCL ")):
        raise wrong(f"NCCL's plug-in exists but is not open: {nccl}")
    if not nccl["path"] and not any("no NCCL plug-in" in x["text"] and "--collectives local" in x["text"]
                                    for x in notes(found)):
        raise wrong(f"no note about NCCL: {notes(found)}")
    one = says(folder, "1 device can compute", **emulated(DEVICES=1))
    if any("NCCL" in x["text"] for x in notes(one)):
        raise wrong(f"a note about NCCL with one device: {notes(one)}")


def check_obstacles(folder):
    """Explains why a plug-in cannot compute: no driver, an old driver, an old device."""
    for environment, *expected in [
            (emulated(DRIVER=0), "no NVIDIA driver is installed", "fix: apt-get install nvidia-driver"),
            (emulated(DRIVER=11080), "serves CUDA up to 11.8, and this build needs CUDA 13.0", "fix: install a newer driver"),
            (emulated(DEVICES=0), "the driver finds no device", "fix: check nvidia-smi"),
            (emulated(ARCHITECTURE=75), "the only device is of compute capability 7.5, and troupe computes on 8.0 (A100) and later", "another device")]:
        found = says(folder, *expected, **environment)
        if any("can compute" in x["text"] for x in notes(found)):
            raise wrong(f"{environment}: reported as able to compute: {notes(found)}")
    found = says(folder, "1 device can compute", "device 1 is of compute capability 7.5", "runs do not use it",
                 **emulated(DEVICES=2, ARCHITECTURE="90,75"))
    if [bool(x["obstacle"]) for x in found["gpu"]["seen"]] != [False, True]:
        raise wrong(f"wrong devices can compute: {found['gpu']}")
    found = says(folder, "TROUPE_ATTENTION selects cuDNN's attention, which cannot run", "fix: unset TROUPE_ATTENTION",
                 TROUPE_ATTENTION="cudnn", **emulated())
    if found["gpu"]["attention"]:
        raise wrong(f"a missing attention library is shown: {found['gpu']}")


def check_attention(folder):
    """An attention library opens but cannot prepare kernels: doctor says why and how to fix it."""
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "libtroupe_cuda.so").symlink_to(BUILD / "emulated/libtroupe_cuda.so")
    (plugins / "libtroupe_cudnn.so").symlink_to(BUILD / "tests/plugins/libtroupe_attention_for_tests.so")
    there = {**emulated(), "TROUPE_PLUGINS": plugins}
    found = says(folder, "attention by a library for tests",
                 "attention by cuDNN: nothing is ready for tests; attention uses troupe's own kernels",
                 "attention by cuDNN: the faster one is not ready, either; then the usual one computes",
                 "fix: cuDNN compiles its kernels with NVRTC", "LD_LIBRARY_PATH", **there)
    if [x.split(";")[0] for x in found["gpu"]["attention_missing"].splitlines()] != [
            "nothing is ready for tests", "the faster one is not ready, either"]:
        raise wrong(f"wrong reasons for missing attention: {found['gpu']}")
    scalar = says(folder, "attention by troupe", **there, TROUPE_ATTENTION="scalar")
    if "tensor cores" in scalar["gpu"]["attention"]:
        raise wrong(f"tensor cores are shown in place of scalar kernels: {scalar['gpu']}")
    own = says(folder, "attention by troupe on tensor cores", **there, TROUPE_ATTENTION="own")
    if own["gpu"]["attention_missing"]:
        raise wrong(f"a library is tried without being selected: {own['gpu']}")
    both = says(folder, "attention by a library for tests, else by troupe on tensor cores", **there,
                TROUPE_ATTENTION="cudnn,own")
    if not both["gpu"]["attention_missing"]:
        raise wrong(f"the selected library is not tried: {both['gpu']}")
    says(folder, "attention by troupe on tensor cores", **emulated(), TROUPE_ATTENTION="cudnn,own")


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[2]).resolve()
    sys.exit(cli_test.main(sys.argv[1], sys.argv[3:], globals()))
