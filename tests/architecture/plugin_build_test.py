"""Checks that the build identity of program and plug-ins changes with each header that they share. Run by ctest:
plugin_build_test.py SOURCES CMAKE"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCES, CMAKE = pathlib.Path(sys.argv[1]), sys.argv[2]
ROOTS = re.search(r"hash headers\s+([^)]+)\)", (SOURCES / "cmake/plugin_build.cmake").read_text()).group(1).split()


def ask(root):
    """Returns the hash and the hashed headers."""
    script = root / "ask.cmake"
    script.write_text("cmake_minimum_required(VERSION 3.25)\n"
                      f"include({SOURCES}/cmake/hash_of_headers.cmake)\n"
                      f"troupe_hash_of_headers({root} hash headers {' '.join(ROOTS)})\n"
                      'message("${hash} ${headers}")\n')
    done = subprocess.run([CMAKE, "-P", script], capture_output=True, text=True, check=True)
    hash_, headers = done.stderr.split()
    return hash_, headers.split(";")


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def sides(*folders):
    """Headers that the sources of these folders include from other folders."""
    found = set()
    for folder in folders:
        for source in sorted((SOURCES / folder).iterdir()):
            found |= set(re.findall(r'^#include "([^"]+)"', source.read_text(), re.M))
    return {x for x in found if not x.startswith(tuple(f + "/" for f in folders))}


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    for part in ("kernels", "runtime"):
        for header in (SOURCES / part).rglob("*.hpp"):
            to = root / header.relative_to(SOURCES)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(header, to)
    first, headers = ask(root)
    expect(set(ROOTS) <= set(headers) and "kernels/op/norm.hpp" in headers, f"headers are followed: {headers}")
    expect(ask(root) == (first, headers), "two calls give the same hash")
    seen = {first}
    for header in headers:
        with (root / header).open("a") as file:
            file.write("// changed\n")
        seen.add(ask(root)[0])
    expect(len(seen) == len(headers) + 1, "each header changes the hash")
    (root / "runtime/device/lane.hpp").write_text("")
    expect(ask(root)[0] in seen, "a header that plug-ins do not include does not change the hash")

# All headers that plug-ins include from elsewhere are hashed, except these, which plug-ins use alone.
alone = {"kernels/backend/plugin.hpp", "kernels/cuda/architecture.hpp", "runtime/core/hmac.hpp",
         "runtime/transport/handshake.hpp"}
beside = sides("kernels/cuda", "kernels/cudnn", "runtime/device/cuda", "runtime/collective/nccl",
               "runtime/transport/ucx") - set(headers) - alone
expect(not beside, f"plug-ins include headers that are not in the hash: {sorted(beside)}")
