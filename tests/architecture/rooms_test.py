"""Checks which folders may include which headers and libraries. Run by ctest."""

import pathlib
import re
import sys

# folder -> allowed includes besides its own headers and the standard library
MAY = {
    "kernels": ["cpuid.h", "immintrin.h", "cuda", "cublas", "cudnn", "dnnl", "oneapi/", "hwy/", "omp.h", "dlfcn.h"],
    "runtime": ["linux/futex.h", "boost/", "sanitizer/", "kernels/", "cuda", "nccl", "ucp/", "uct/", "ucs/", "spdlog/", "fmt/", "nlohmann/", "openssl/", "xxhash.h", "pcre2.h", "utf8proc.h", "sentencepiece_processor.h", "lua.hpp", "omp.h", "zlib.h", "zstd.h", "unicode/", "curl/", "ncurses.h", "prometheus/"],
    "messages": ["runtime/core/", "runtime/optim/", "runtime/state/", "runtime/tensor/", "runtime/layout/", "runtime/schedule/", "runtime/telemetry/", "caf/", "fmt/"],
    "actors": ["messages/", "runtime/", "caf/", "fmt/", "CLI/", "yaml-cpp/", "nlohmann/"],
    "examples": ["actors/", "messages/", "runtime/", "caf/", "fmt/"],
    "tests": ["linux/", "boost/", "cuda", "cublas", "nccl", "sanitizer/", "omp.h", "dlfcn.h", "kernels/", "runtime/", "messages/", "actors/", "caf/", "catch2/", "fmt/", "hwy/", "nlohmann/", "oneapi/", "openssl/", "zlib.h", "zstd.h"],
}

# library -> the only folders that may include it
ONLY = {
    "caf/": ["messages/", "actors/", "tests/", "examples/"],
    "CLI/": ["actors/command/"],
    "yaml-cpp/": ["actors/command/"],
    "cuda": ["kernels/cuda/", "kernels/cudnn/", "runtime/device/cuda/", "runtime/collective/nccl/", "tests/emulator/", "tests/kernels_cuda/", "tests/support/"],
    "linux/": ["runtime/collective/window/", "tests/support/"],
    "boost/": ["runtime/device/", "runtime/http/", "tests/emulator/"],
    "boost/asio": ["runtime/http/"],
    "boost/beast": ["runtime/http/"],
    "sanitizer/": ["runtime/device/", "tests/emulator/"],
    "cublas": ["kernels/cuda/", "tests/emulator/"],
    "cudnn": ["kernels/cudnn/"],
    "nccl": ["runtime/collective/nccl/", "tests/emulator/", "tests/kernels_cuda/", "tests/support/"],
    "ucp/": ["runtime/transport/ucx/"],
    "uct/": ["runtime/transport/ucx/"],
    "ucs/": ["runtime/transport/ucx/"],
    "actors/faults/": ["actors/faults/", "actors/job/", "actors/simulation/", "tests/"],
    "spdlog/": ["runtime/core/"],
    "pcre2.h": ["runtime/tokenizer/"],
    "utf8proc.h": ["runtime/template/", "runtime/tokenizer/"],
    "sentencepiece_processor.h": ["runtime/tokenizer/"],
    "lua.hpp": ["runtime/script/"],
    "zlib.h": ["runtime/data/", "tests/"],
    "zstd.h": ["runtime/data/", "tests/"],
    "unicode/": ["runtime/data/"],
    "curl/": ["runtime/http/", "runtime/hub/", "runtime/object/"],
    "ncurses.h": ["runtime/watch/terminal.cpp"],
    "prometheus/": ["runtime/watch/"],
    "oneapi/": ["kernels/cpu/", "tests/bench/"],
    "cpuid.h": ["kernels/cpu/amx.cpp"],
    "immintrin.h": ["kernels/cpu/amx-inl.hpp"],
    "hwy/": ["kernels/cpu/", "tests/kernels/"],
    "openssl/": ["runtime/core/", "runtime/http/", "runtime/process/credentials.cpp", "runtime/process/tls_errors.cpp", "tests/"],
    "xxhash.h": ["runtime/core/"],
}

# headers of runtime/ that messages/ may include: values only
VALUES = re.compile(r"^runtime/(core|layout|schedule|telemetry)/|^runtime/optim/digested_part\.hpp$|^runtime/state/state_source\.hpp$|^runtime/tensor/(box|dtype|shape|shard|ticket)\.hpp$")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
STANDARD = re.compile(r"^[a-z_0-9]+$|^(sys|arpa|net|netinet|linux)/|^(unistd|fcntl|dirent|signal|spawn|poll|netdb|pthread|dlfcn|sched|ifaddrs|elf|link|cxxabi|langinfo|termios|malloc)\.h$")


# Arguments of operations are visible only in kernels and runtime. Other folders use handles.
OPERATIONS = "kernels/op/every_op.hpp"
HANDLES = {"kernels/op/registry.hpp"}


# nlohmann's reader and writer cost seconds of compilation in each source that uses them.
JSON = re.compile(r"json::parse\(|(?:\.|->)dump\(")
JSON_TEXTS = "runtime/core/json_text.cpp"


def included(path):
    return [found[1] for found in map(INCLUDE.match, path.read_text().splitlines()) if found]


def seen_from(root, room):
    """Maps each project header that the folder includes, directly or not, to a file that includes it."""
    by = {}
    waiting = [path for path in sorted((root / room).rglob("*")) if path.suffix in (".hpp", ".cpp")]
    while waiting:
        path = waiting.pop()
        for name in included(path):
            if name not in by and "/" in name and (root / name).is_file():
                by[name] = path.relative_to(root).as_posix()
                waiting.append(root / name)
    return by


def seen_operations(root):
    if not (root / OPERATIONS).is_file():
        yield f"{OPERATIONS} does not exist, so the headers of operations are unknown"
        return
    operations = {x for x in included(root / OPERATIONS) if x.startswith("kernels/op/")} - HANDLES
    for room in ("messages", "actors"):
        by = seen_from(root, room)
        for name in sorted(operations & by.keys()):
            yield f"{room} sees the operations of {name}, which {by[name]} includes"


def complaints(root):
    seen = 0
    yield from seen_operations(root)
    for room, may in MAY.items():
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in (".hpp", ".cpp", ".cu", ".cuh"):
                continue
            seen += 1
            here = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if room not in ("examples", "tests") and here != JSON_TEXTS and JSON.search(line):
                    yield f"{here}:{number}: reads or writes JSON text; use runtime/core/json_text.hpp"
                found = INCLUDE.match(line)
                if not found or STANDARD.match(found[1]):
                    continue
                name = found[1]
                allowed = any(name.startswith(p) for p in [room + "/"] + may)
                if room == "examples" and "/" not in name:  # examples are also built outside of the tree
                    allowed = (path.parent / name).exists()
                if room == "messages" and name.startswith("runtime/"):
                    allowed = VALUES.match(name) is not None
                for library, folders in ONLY.items():
                    if name.startswith(library):
                        allowed = allowed and any(here.startswith(f) for f in folders)
                if not allowed:
                    yield f"{here}:{number}: {room} may not include {name}"
    if seen == 0:
        yield f"{root}: no sources found, so nothing was checked"


def self_test(tmp):
    """True if the check finds its own planted includes."""
    planted = {"kernels/a.hpp": "runtime/core/ids.hpp", "runtime/core/b.hpp": "caf/all.hpp",
               "messages/c.hpp": "runtime/family/gpt.hpp", "actors/d.hpp": "kernels/op/philox.hpp",
               "runtime/data/e.cpp": "spdlog/spdlog.h", "examples/f.cpp": "kernels/op/norm.hpp",
               "examples/g.cpp": "gone.hpp",
               "actors/stage/i.cpp": "actors/faults/inject.hpp",
               "actors/h.hpp": "runtime/h.hpp", "runtime/h.hpp": "kernels/op/norm.hpp",
               OPERATIONS: "kernels/op/norm.hpp", "kernels/op/norm.hpp": "kernels/op/context.hpp"}
    for name, include in planted.items():
        path = tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#include "{include}"\n')
    (tmp / "runtime/core/b.hpp").open("a").write("auto x = nlohmann::json::parse(y);\n")
    (tmp / "runtime/core/json_text.cpp").write_text("auto x = nlohmann::json::parse(y);\n")
    # Only the first of the last four files is wrong: it sees an operation.
    return len(list(complaints(tmp))) == len(planted) - 3 + 1


def main(root):
    import tempfile
    with tempfile.TemporaryDirectory() as tmp:
        if not self_test(pathlib.Path(tmp)):
            print("rooms_test.py does not find its own planted includes")
            return 1
    wrong = list(complaints(root))
    print("\n".join(wrong) or "all includes are allowed")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
