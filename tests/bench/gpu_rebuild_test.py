"""What gpu_pack.py carries, and gpu_rebuild.py compiles and refuses: with a tree of a few files and a script in the
place of nvcc; `real`: with a build of ours.

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
from gpu_pack import pack  # noqa: E402
from gpu_recipe import headers_between  # noqa: E402
from gpu_run_test import BENCH, TROUPE  # noqa: E402

ONE = "kernels/cuda/one.cu"
SOURCES = {
    "cmake/plugin_build.cmake": "troupe_hash_of_headers(${PROJECT_SOURCE_DIR} hash headers"
                                "\n  kernels/backend/backend.hpp\n  kernels/cuda/attention_library.hpp)\n",
    "kernels/backend/backend.hpp": "#pragma once\n",
    "kernels/cuda/attention_library.hpp": "#pragma once\n",
    "runtime/trainer/step.cpp": "int step() { return 1; }\n",
    "kernels/backend/plugin_build.cpp": 'extern "C" const char* build() { return TROUPE_PLUGIN_BUILD; }\n',
    "kernels/cuda/own.hpp": '#pragma once\n#include "kernels/cuda/deep.cuh"\ninline int own() { return 10; }\n',
    "kernels/cuda/deep.cuh": "#pragma once\ninline int deep() { return 100; }\n",
    ONE: '#include "kernels/cuda/own.hpp"\nextern "C" int one() { return 1 + own() + deep() + GIVEN; }\n',
    "kernels/cuda/two.cpp": '#include "kernels/backend/backend.hpp"\nextern "C" int two() { return 2; }\n',
    "tests/support.cpp": 'extern "C" int one();\nint supported() { return one(); }\n',
    "tests/main.cpp": '#include "kernels/backend/backend.hpp"\n#include <cstdio>\nint supported();\n'
                      'int main() { std::printf("%d\\n", supported()); }\n',
}
NVCC = '''#!/bin/sh
test "$1" != --version || { echo "Cuda compilation tools, release 13.0, V13.0.${MINOR:-88}"; exit 0; }
test -z "$SLOW" || exec sleep 60
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
        done = self.pack()
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
                (ONE, f"{plugin}/kernels/cuda/one.cu.o", [nvcc, "-DGIVEN=1000", "-fPIC", "-Werror", "all-warnings"]),
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

    def call(self, program, *words, **env):
        return subprocess.run([*program, *words], capture_output=True, text=True,
                              env={**os.environ, "CUDACXX": str(self.kit / "bin/nvcc"), **env})

    def pack(self):
        return self.call([sys.executable, "-B", HERE / "gpu_pack.py", "--root", self.root], self.build, self.bin / "rebuild")

    def make(self, *words, **env):
        return self.call([sys.executable, "-B", HERE / "gpu_rebuild.py", "--root", self.root], self.bin, *words, **env)

    def told(self):
        """What stands beside the figures."""
        return (self.bin / "kernels.txt").read_text()

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
    at.write(ONE, SOURCES[ONE].replace("1 +", "5 +"))
    done = at.make("--check")
    expect(done.returncode == 0 and ONE in done.stdout and at.compiled() == 0, "what differs is said", done)
    was = re.search(r"^kernels: as carried, sum (\w+)$", at.told(), re.M)
    expect(was and f"differs: 1 of the plug-ins' sources differs from what is measured, the first {ONE}\n" in at.told(),
           "beside the figures, too", at.told())
    done = at.make()
    expect(done.returncode == 0 and "1 of 2 sources" in done.stdout, "one is compiled", done)
    expect(at.value() == f"1115 0.1.0 abc GNU 12, headers {headers_between(at.root)}", "with the build's flags, and it is of that build", at.value())
    expect(at.tested() == "1115", "so are the tests", at.tested())
    expect("kernels: 1 of 2 sources compiled here" in at.told() and f"compiled here: {ONE} " in at.told() and was[1] not in at.told()
           and "differs: \n" in at.told() and "tests: \n" in at.told(), "and what they are of stands beside the figures", at.told())
    done = at.make()
    expect("of these sources" in done.stdout and at.compiled() == 1, "once", done)


def check_header(at):
    at.write("kernels/cuda/deep.cuh", SOURCES["kernels/cuda/deep.cuh"].replace("100", "200"))
    done = at.make()
    expect(done.returncode == 0 and "kernels/cuda/two.cpp" not in done.stdout, "only what includes it, by way of another", done)
    expect(at.value().startswith("1211 ") and at.tested() == "1211", "is compiled anew", at.value())


def check_refusals(at):
    was = at.value()
    at.write(ONE, 'extern "C" int one() { return absent; }\n')
    done = at.make()
    expect(done.returncode == 1 and "absent" in done.stdout and "as they were" in done.stderr, "what does not compile is shown", done)
    expect(at.value() == was, "and nothing is replaced", at.value())
    at.write(ONE, 'extern "C" int nobody();\nextern "C" int one() { return nobody(); }\n')
    done = at.make()
    expect(done.returncode == 1 and "nobody" in done.stderr and at.value() == was, "nor where it cannot be linked", done)
    at.write(ONE, SOURCES[ONE])
    done = at.make()
    expect(done.returncode == 0 and "1 of 2 sources" in done.stdout and at.value().startswith("1111 "),
           "what was carried is compiled again, for its object is no longer the one that was", done)
    done = at.make("--all", CUDACXX="/nowhere")
    expect(done.returncode == 1 and "no nvcc at /nowhere" in done.stderr, "without a compiler nothing is done", done)
    at.write("kernels/cuda/three.cpp", "")
    done = at.make()
    expect(done.returncode == 1 and "kernels/cuda/three.cpp" in done.stderr, "a new source is not known there", done)
    (at.root / "kernels/cuda/three.cpp").unlink()
    at.write("kernels/cuda/attention_library.hpp", "#pragma once\nstruct more {};\n")
    done = at.make()
    expect(done.returncode == 1 and "in common" in done.stderr, "a header that the program has, too, is refused", done)
    at.write("kernels/cuda/attention_library.hpp", SOURCES["kernels/cuda/attention_library.hpp"])
    at.write("runtime/trainer/step.cpp", "int step() { return 2; }\n")
    at.write("runtime/trainer/more.cpp", "")
    done = at.make()
    expect(done.returncode == 1 and "2 of the program's own files differ" in done.stderr, "so is what the program alone has", done)
    expect(at.make("--check").returncode == 0 and "2 of the program's own files differ" in at.told(), "which is said where it is measured", at.told())


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


    done = at.make("--check")
    expect("tests: 1 of the sources of test_kernels_device" in at.told(), "beside the figures, too", at.told())
    at.write("tests/main.cpp", SOURCES["tests/main.cpp"])
    done = at.make()
    expect("linked test_kernels_device" in done.stdout and at.tested() == "1111" and "tests: \n" in at.told(), "until they are as they were", done)
    at.write(ONE, SOURCES[ONE].replace("one()", "other()"))
    at.write("kernels/cuda/two.cpp", SOURCES["kernels/cuda/two.cpp"].replace("2;", "5;"))
    done = at.make()
    expect(done.returncode == 0 and "linked libtroupe_cuda.so" in done.stdout and "tests: test_kernels_device cannot be linked" in at.told(),
           "tests that cannot be linked do not keep the plug-in from it", done)
    expect(not (at.bin / "test_kernels_device").exists(), "and those of other kernels are not run", done)


def check_stale(at):
    """Programs that were not built after what they are made of."""
    for name, made in [("CMakeFiles/plugin_cuda.dir/kernels/cuda/one.cu.o", "libtroupe_cuda.so"), ("lib/libtest_operations.a", "test_kernels_device"),
                       ("../tests/main.cpp", "test_kernels_device"), ("../kernels/backend/backend.hpp", "test_kernels_device")]:
        file = at.build / name
        was, later = file.stat().st_mtime, (at.build / "bin" / made).stat().st_mtime + 10
        os.utime(file, (later, later))
        done = at.pack()
        expect(done.returncode == 1 and f"bin/{made}' is older" in done.stderr and "build it first" in done.stderr, f"{name} is newer", done)
        os.utime(file, (was, was))
    expect(at.pack().returncode == 0, "what is current is packed")
    (at.build / "CMakeCache.txt").write_text("")
    done = at.pack()
    expect(done.returncode == 1 and "configured without nvcc" in done.stderr, "a build without nvcc has nothing to compile with", done)


def check_older(at):
    """A source that was changed, but not built, before it was carried."""
    at.write(ONE, SOURCES[ONE].replace("1 +", "7 +"))
    later = (at.build / "CMakeFiles/plugin_cuda.dir/kernels/cuda/one.cu.o").stat().st_mtime + 10
    os.utime(at.root / ONE, (later, later))
    expect(at.pack().returncode == 0, "it is packed")
    expect(at.make("--check").returncode == 0 and "1 of the plug-ins' sources differs" in at.told(), "as what it is", at.told())
    done = at.make()
    expect(done.returncode == 0 and at.value().startswith("1117 "), "it is compiled there", at.value())


def check_prebuilt(at):
    """gpu.sh with what was carried: unpacked, compiled, measured; then once more, and without compiling."""
    here, carried = at.root / "tests/bench", at.root / "carried"
    here.mkdir()
    for file in HERE.glob("gpu*"):
        if file.is_file():
            shutil.copy(file, here)
    carried.mkdir()
    for name, text in [("troupe", TROUPE), ("bench_gpu", BENCH)]:
        (at.bin / name).write_text(text)
        (at.bin / name).chmod(0o755)
    run("tar", "-czf", carried / "troupe.tar.gz", "-C", at.bin, ".")
    out, saved = at.root / "out/a", at.root / "saved/a"

    def measured(*words, **env):
        done = at.call(["bash", here / "gpu.sh", "--prebuilt", carried, "--out", out, "--save", saved, "--part", "quick", *words], **env)
        return done, (saved / "table.quick.txt").read_text() if done.returncode in (0, 1) and saved.exists() else ""

    at.write(ONE, SOURCES[ONE].replace("1 +", "5 +"))
    done, table = measured("--rebuild", "--seconds", "100")
    expect(done.returncode == 0 and re.search("^kernels +1 of 2 sources compiled here", table, re.M), "it is compiled, and the table says so", done)
    expect((out / "quick/kernels.txt").read_text() == (out.with_name("a.carried") / "kernels.txt").read_text(), "the logs, too", done)
    expect("all pass" in table and "1115" in table, "the tests are of these kernels", table)
    done, table = measured("--keep")
    expect(re.search("^kernels +1 of 2 sources compiled here", table, re.M), "what was compiled is kept where it is asked for", done)
    done, table = measured()
    expect(re.search("^kernels +as carried, .*1 of the plug-ins' sources differs .* NO$", table, re.M), "else it is what was carried", done)
    at.write(ONE, "no source\n")
    table = (saved / "table.quick.txt").stat().st_mtime_ns
    done, _ = measured("--rebuild")
    expect(done.returncode == 1 and (saved / "table.quick.txt").stat().st_mtime_ns == table, "where it does not compile nothing is measured", done)
    at.write(ONE, SOURCES[ONE] + "// changed\n")
    done, _ = measured("--rebuild", "--seconds", "4", SLOW="1")
    expect(done.returncode == 1 and "compiling took more than" in done.stderr, "nor where compiling takes too long", done)
    for words in ["--rebuild"], ["--keep"]:
        done = at.call(["bash", here / "gpu.sh", *words])
        expect(done.returncode == 2 and "--prebuilt" in done.stderr, "without what was carried there is nothing to compile", done)


def check_real(folder, troupe, build):
    """One small kernel of ours by the real compiler, in a plug-in that the program takes."""
    bin_ = folder / "carried"
    (bin_ / "rebuild").mkdir(parents=True)
    root = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    rebuild = [sys.executable, "-B", HERE / "gpu_rebuild.py", "--root", root]
    with_tests = (build / "bin/test_kernels_device").exists()
    try:
        pack(build, bin_ / "rebuild", pathlib.Path(root), with_tests)
    except SystemExit as e:  # they are built by their name alone, and may be of another day
        print(f"without the tests: {e}")
        with_tests = False
        pack(build, bin_ / "rebuild", pathlib.Path(root), with_tests)
    recipe = json.loads((bin_ / "rebuild/recipe.json").read_text())
    for x in recipe["plugins"]["cuda"]:
        x["sum"] = "another text" if x["source"] == "kernels/cuda/count.cu" else x["sum"]
    (bin_ / "rebuild/recipe.json").write_text(json.dumps(recipe))
    done = subprocess.run([*map(str, rebuild), bin_], capture_output=True, text=True)
    expect(done.returncode == 0 and "kernels/cuda/count.cu" in done.stdout, "it is compiled and linked", done)
    expect(("linked test_kernels_device" in done.stdout) == with_tests, "so are the tests, where they are built", done)
    said = subprocess.run([troupe, "doctor", "--json"], capture_output=True, text=True, env={**os.environ, "TROUPE_PLUGINS": str(bin_)}).stdout
    found = json.loads(said[said.index("{"):])["gpu"]["plugins"]["cuda"]
    expect(found["opened"] and found["path"].startswith(str(bin_)), "the program takes it", found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1] == "real":
            check_real(pathlib.Path(folder), sys.argv[2], pathlib.Path(sys.argv[3]))
        else:
            globals()[f"check_{sys.argv[1]}"](place(pathlib.Path(folder)))
