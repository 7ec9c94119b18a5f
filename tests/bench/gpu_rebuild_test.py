"""What gpu_rebuild.py compiles, and what it refuses: with a tree of a few files and a script in the place of nvcc;
`real`: with a build of ours.

    gpu_rebuild_test.py CHECK [TROUPE BUILD]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from gpu_rebuild import headers_between  # noqa: E402

SOURCES = {
    "cmake/plugin_build.cmake": "troupe_hash_of_headers(${PROJECT_SOURCE_DIR} hash headers\n  kernels/backend/plugin.hpp)\n",
    "kernels/backend/plugin.hpp": "#pragma once\n",
    "kernels/backend/plugin_build.cpp": 'extern "C" const char* build() { return TROUPE_PLUGIN_BUILD; }\n',
    "kernels/cuda/own.hpp": '#pragma once\n#include "kernels/cuda/deep.cuh"\ninline int own() { return 10; }\n',
    "kernels/cuda/deep.cuh": "#pragma once\ninline int deep() { return 100; }\n",
    "kernels/cuda/one.cu": '#include "kernels/cuda/own.hpp"\nextern "C" int one() { return 1 + own() + deep() + GIVEN; }\n',
    "kernels/cuda/two.cpp": '#include "kernels/backend/plugin.hpp"\nextern "C" int two() { return 2; }\n',
    "tests/support.cpp": 'extern "C" int one();\nint supported() { return one(); }\n',
    "tests/main.cpp": '#include "kernels/backend/plugin.hpp"\n#include <cstdio>\nint supported();\n'
                      'int main() { std::printf("%d\\n", supported()); }\n',
}
NVCC = '''#!/bin/sh
test "$1" != --version || { echo "Cuda compilation tools, release 13.0, V13.0.${MINOR:-88}"; exit 0; }
for x; do case $x in *.cu) echo "$x" >>"$0.calls" ;; esac; done
exec c++ -x c++ "$@"
'''


def expect(holds, what, said=""):
    if not holds:
        sys.exit(f"not as it must be: {what}\n{said}")


def run(*words):
    subprocess.run([str(x) for x in words], check=True)


class place:
    """A build, and beside it what was carried."""

    def __init__(self, folder):
        self.root, self.build, self.kit, self.bin = (folder / x for x in ["root", "root/build", "kit", "carried"])
        for name, text in SOURCES.items():
            self.write(name, text)
        for folder in [self.build / "bin", self.build / "lib", self.kit / "bin", self.kit / "lib64", self.bin / "rebuild", self.bin / "lib"]:
            folder.mkdir(parents=True)
        (self.kit / "bin/nvcc").write_text(NVCC)
        (self.kit / "bin/nvcc").chmod(0o755)
        (self.kit / "empty.cpp").write_text("")
        run("c++", "-shared", "-o", self.kit / "lib64/libcublasLt.so", self.kit / "empty.cpp")
        run("ar", "rc", self.kit / "lib64/libcudart_static.a")
        self.make_build()
        done = self.call("pack", self.build, self.bin / "rebuild")
        expect(done.returncode == 0, "it is packed", done.stderr)
        shutil.copytree(self.build / "bin", self.bin, dirs_exist_ok=True)
        (self.kit / "bin/nvcc.calls").unlink()

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def make_build(self):
        """As CMake and Ninja have it, but for what is not looked at."""
        plugin, tests, nvcc = "CMakeFiles/plugin_cuda.dir", "tests/CMakeFiles/test_kernels_device.dir", self.kit / "bin/nvcc"
        says = f'0.1.0 abc GNU 12, headers {headers_between(self.root)}'
        commands = []
        for source, made, words in [
                ("kernels/backend/plugin_build.cpp", "CMakeFiles/plugin_build.dir/kernels/backend/plugin_build.cpp.o",
                 ["c++", f'-DTROUPE_PLUGIN_BUILD="{says}"', "-fPIC"]),
                ("kernels/cuda/one.cu", f"{plugin}/kernels/cuda/one.cu.o", [nvcc, "-DGIVEN=1000", "-fPIC", "-Werror", "all-warnings"]),
                ("kernels/cuda/two.cpp", f"{plugin}/kernels/cuda/two.cpp.o", ["c++", "-g1", "-fPIC", "-Wall", "-Werror"]),
                ("tests/main.cpp", f"{tests}/main.cpp.o", ["c++"]),
                ("tests/support.cpp", "tests/CMakeFiles/test_operations.dir/support.cpp.o", ["c++"])]:
            line = [*map(str, words), f"-I{self.root}", "-o", made, "-c", str(self.root / source)]
            (self.build / made).parent.mkdir(parents=True, exist_ok=True)
            real = [x for x in line if x != "all-warnings"]
            subprocess.run(real, cwd=self.build, check=True)
            commands.append(dict(directory=str(self.build), file=str(self.root / source),
                                 command=" ".join(x.replace('"', '\\"').replace(" ", "\\ ") for x in line)))
        (self.build / "compile_commands.json").write_text(json.dumps(commands))
        (self.build / "CMakeCache.txt").write_text(f"CMAKE_CUDA_COMPILER:FILEPATH={nvcc}\n")
        run("ar", "rc", self.build / "lib/libtest_operations.a", self.build / "tests/CMakeFiles/test_operations.dir/support.cpp.o")
        objects = [f"{plugin}/kernels/cuda/{x}.o" for x in ["one.cu", "two.cpp"]]
        vendor = self.kit / "lib64/libcublasLt.so"
        (self.build / "build.ninja").write_text(
            f"# edges\nbuild bin/test_kernels_device: LINKER {tests}/main.cpp.o {' '.join(objects)} | lib/libtest_operations.a {vendor} || all\n"
            f"  FLAGS = -O2\n  LINK_LIBRARIES = -Wl,-rpath,x:  lib/libtest_operations.a  {vendor}  /usr/lib/librt.a  -ldl\n\nbuild last: phony\n")
        built = [self.build / x for x in objects]
        run("c++", "-shared", "-o", self.build / "bin/libtroupe_cuda.so", *built,
            self.build / "CMakeFiles/plugin_build.dir/kernels/backend/plugin_build.cpp.o")
        run("c++", "-o", self.build / "bin/test_kernels_device", self.build / tests / "main.cpp.o", *built, self.build / "lib/libtest_operations.a")

    def call(self, *words, **env):
        return subprocess.run([sys.executable, "-B", HERE / "gpu_rebuild.py", "--root", self.root, *words], capture_output=True, text=True,
                              env={**os.environ, "CUDACXX": str(self.kit / "bin/nvcc"), **env})

    def make(self, *words, **env):
        return self.call("make", self.bin, *words, **env)

    def value(self):
        """Of the plug-in; and of which build it is. In a process of its own: a library is loaded once."""
        ask = "import ctypes, sys; x = ctypes.CDLL(sys.argv[1]); x.build.restype = ctypes.c_char_p; print(x.one(), x.build().decode())"
        done = subprocess.run([sys.executable, "-c", ask, self.bin / "libtroupe_cuda.so"], capture_output=True, text=True)
        return done.stdout.strip() or done.stderr

    def tested(self):
        return subprocess.run([self.bin / "test_kernels_device"], capture_output=True, text=True).stdout.strip()

    def compiled(self):
        calls = self.kit / "bin/nvcc.calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0


def check_source(at):
    done = at.make()
    expect(done.returncode == 0 and "of these sources" in done.stdout and at.compiled() == 0, "what is as it was is not compiled", done)
    at.write("kernels/cuda/one.cu", SOURCES["kernels/cuda/one.cu"].replace("1 +", "5 +"))
    done = at.make("--check")
    expect(done.returncode == 0 and "kernels/cuda/one.cu" in done.stdout and at.compiled() == 0, "what differs is said", done)
    done = at.make()
    expect(done.returncode == 0 and "1 of 2 sources" in done.stdout, "one is compiled", done)
    expect(at.value() == f"1115 0.1.0 abc GNU 12, headers {headers_between(at.root)}", "with the build's flags, and it is of that build", at.value())
    expect(at.tested() == "1115", "so are the tests", at.tested())
    done = at.make()
    expect("of these sources" in done.stdout and at.compiled() == 1, "once", done)


def check_header(at):
    at.write("kernels/cuda/deep.cuh", SOURCES["kernels/cuda/deep.cuh"].replace("100", "200"))
    done = at.make()
    expect(done.returncode == 0 and "kernels/cuda/two.cpp" not in done.stdout, "only what includes it, by way of another", done)
    expect(at.value().startswith("1211 ") and at.tested() == "1211", "is compiled anew", at.value())


def check_refusals(at):
    was = at.value()
    at.write("kernels/cuda/one.cu", 'extern "C" int one() { return absent; }\n')
    done = at.make()
    expect(done.returncode == 1 and "absent" in done.stdout and "as they were" in done.stderr, "what does not compile is shown", done)
    expect(at.value() == was, "and nothing is replaced", at.value())
    at.write("kernels/cuda/one.cu", 'extern "C" int nobody();\nextern "C" int one() { return nobody(); }\n')
    done = at.make()
    expect(done.returncode == 1 and "nobody" in done.stderr and at.value() == was, "nor where it cannot be linked", done)
    at.write("kernels/cuda/one.cu", SOURCES["kernels/cuda/one.cu"])
    done = at.make()
    expect(done.returncode == 0 and "1 of 2 sources" in done.stdout and at.value().startswith("1111 "),
           "what was carried is compiled again, for its object is no longer the one that was", done)
    done = at.make("--all", CUDACXX="/nowhere")
    expect(done.returncode == 1 and "no nvcc at /nowhere" in done.stderr, "without a compiler nothing is done", done)
    at.write("kernels/cuda/three.cpp", "")
    done = at.make()
    expect(done.returncode == 1 and "kernels/cuda/three.cpp" in done.stderr, "a new source is not known there", done)
    (at.root / "kernels/cuda/three.cpp").unlink()
    at.write("kernels/backend/plugin.hpp", "#pragma once\nstruct more {};\n")
    done = at.make()
    expect(done.returncode == 1 and "build both" in done.stderr, "a header that the program has, too, is refused", done)


def check_release(at):
    at.write("kernels/cuda/two.cpp", SOURCES["kernels/cuda/two.cpp"].replace("2;", "3;"))
    done = at.make(MINOR="99")
    expect(done.returncode == 0 and "2 of 2 sources" in done.stdout and at.compiled() == 1, "another nvcc compiles everything", done)
    (at.kit / "lib64/libcudart_static.a").unlink()
    done = at.make("--all")
    expect(done.returncode == 0, "a toolkit without the static runtime: it was carried", done)


def check_tests(at):
    at.write("tests/main.cpp", SOURCES["tests/main.cpp"] + "// changed\n")
    done = at.make("--check")
    expect(done.returncode == 0 and "tests/main.cpp" in done.stdout, "tests that differ are said", done)
    at.write("kernels/cuda/two.cpp", SOURCES["kernels/cuda/two.cpp"] + "// changed\n")
    done = at.make()
    expect(done.returncode == 0 and "tests/main.cpp" in done.stdout, "it says why there are no tests", done)
    expect(not (at.bin / "test_kernels_device").exists(), "and leaves none of another text", done)


def check_older(at):
    """A source that was changed, but not built, before it was carried."""
    at.write("kernels/cuda/one.cu", SOURCES["kernels/cuda/one.cu"].replace("1 +", "7 +"))
    later = (at.build / "CMakeFiles/plugin_cuda.dir/kernels/cuda/one.cu.o").stat().st_mtime + 10
    os.utime(at.root / "kernels/cuda/one.cu", (later, later))
    expect(at.call("pack", at.build, at.bin / "rebuild").returncode == 0, "it is packed")
    done = at.make()
    expect(done.returncode == 0 and at.value().startswith("1117 "), "it is compiled there", at.value())


def check_real(folder, troupe, build):
    """One small kernel of ours by the real compiler, in a plug-in that the program takes."""
    bin_ = folder / "carried"
    (bin_ / "rebuild").mkdir(parents=True)
    root = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    rebuild = [sys.executable, "-B", HERE / "gpu_rebuild.py", "--root", root]
    run(*rebuild, "pack", build, bin_ / "rebuild")
    recipe = json.loads((bin_ / "rebuild/recipe.json").read_text())
    recipe["tests"] = None  # they may not be built here
    for x in recipe["plugins"]["cuda"]:
        x["sum"] = "another text" if x["source"] == "kernels/cuda/count.cu" else x["sum"]
    (bin_ / "rebuild/recipe.json").write_text(json.dumps(recipe))
    done = subprocess.run([*map(str, rebuild), "make", bin_], capture_output=True, text=True)
    expect(done.returncode == 0 and "kernels/cuda/count.cu" in done.stdout, "it is compiled and linked", done)
    said = subprocess.run([troupe, "doctor", "--json"], capture_output=True, text=True, env={**os.environ, "TROUPE_PLUGINS": str(bin_)}).stdout
    found = json.loads(said[said.index("{"):])["gpu"]["plugins"]["cuda"]
    expect(found["opened"] and found["path"].startswith(str(bin_)), "the program takes it", found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1] == "real":
            check_real(pathlib.Path(folder), sys.argv[2], pathlib.Path(sys.argv[3]))
        else:
            globals()[f"check_{sys.argv[1]}"](place(pathlib.Path(folder)))
