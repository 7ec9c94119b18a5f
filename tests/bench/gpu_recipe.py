"""What gpu_pack.py and gpu_rebuild.py have in common: of which text a source is, and where NVIDIA's tools lie."""

import hashlib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENDORS = {"cuda": "cublasLt", "cudnn": "cudnn", "nccl": "nccl"}  # the library of each plug-in
PROGRAM = ["kernels", "runtime", "messages", "actors", "cmake", "tests/bench/gpu"]  # where its sources lie
PROGRAM_FILE = re.compile(r".*\.(cpp|hpp|cmake)|CMakeLists\.txt")


def refuse(what):
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {what}")


def included(root, source):
    """The source and all headers of ours that it includes, paths below the root, in order."""
    found, next_ = set(), [source]
    while next_:
        path = next_.pop()
        if path in found or not (root / path).is_file():
            continue
        found.add(path)
        next_ += re.findall(r'^\s*#\s*include "([^"]+)"', (root / path).read_text(), re.M)
    return sorted(found)


def sum_of_file(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def sum_of(root, source):
    """Of its text and that of all headers of ours that it includes."""
    lines = "".join(f"{path} {sum_of_file(root / path)}\n" for path in included(root, source))
    return hashlib.sha256(lines.encode()).hexdigest()


def headers_between(root):
    """What cmake/plugin_build.cmake calls so."""
    listed = re.search(r"hash headers\s+([^)]+)\)", (root / "cmake/plugin_build.cmake").read_text())
    if not listed:
        refuse("cmake/plugin_build.cmake has no list of the headers that the program and its plug-ins have in common")
    found = sorted({path for x in listed[1].split() for path in included(root, x)})
    lines = "".join(f"{path} {sum_of_file(root / path)}\n" for path in found)
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


def folders_of(plugins):
    """Those whose sources are of plug-ins alone. kernels/backend is in the program, too."""
    return {str(pathlib.PurePosixPath(x["source"]).parent) for entries in plugins.values() for x in entries} - {"kernels/backend"}


def program_sums(root, plugins):
    """Of each file that makes the program or says how, by its path: what cannot be compiled where the GPU is."""
    apart = folders_of(plugins)
    files = [p for x in PROGRAM for p in (root / x).rglob("*")] + [root / "CMakeLists.txt", root / "CMakePresets.json"]
    found = {p.relative_to(root): p for p in files if p.is_file() and (PROGRAM_FILE.fullmatch(p.name) or p.parent == root)}
    return {x.as_posix(): sum_of_file(p)[:16] for x, p in sorted(found.items()) if str(x.parent) not in apart}


def release(nvcc):
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True)
    found = re.search(r"release [\d.]+, V[\d.]+", done.stdout)
    return found[0] if found else done.stdout.strip()


def packages():
    """NVIDIA's, which come with PyTorch."""
    asked = subprocess.run([sys.executable, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')"], capture_output=True, text=True)
    return [x for line in asked.stdout.splitlines() for x in sorted(pathlib.Path(line).glob("*"))]


def toolkit(nvcc):
    """Where its headers and libraries may lie: its own, and those of packages."""
    home = pathlib.Path(nvcc).resolve().parents[1]
    return {kind: [x for folder in [home, *packages()] for name in names for x in sorted(folder.glob(name)) if x.is_dir()]
            for kind, names in [("headers", ["include", "targets/x86_64-linux/include"]),
                                ("libraries", ["lib64", "lib", "targets/x86_64-linux/lib"])]}
