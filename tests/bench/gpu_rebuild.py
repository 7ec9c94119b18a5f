"""Compiles anew, where a GPU is, those sources of plug-ins that differ from what was carried there.

    gpu_rebuild.py pack BUILD FOLDER           what that takes, out of a build: called by gpu_carry.sh
    gpu_rebuild.py make BIN [--check] [--all]  called by gpu_rebuild.sh

BIN has the programs and FOLDER as BIN/rebuild: objects, archives for the program of tests, and recipe.json, which
says how the build compiled each source and of which text. A source counts as changed when it or a header of
ours that it includes has another text. The program itself cannot be made there: who changes a header that it and
its plug-ins have in common is refused.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENDORS = {"cuda": "cublasLt", "cudnn": "cudnn", "nccl": "nccl"}  # the library of each plug-in
# Of one machine or compiler, or of what is checked where it was built.
LEFT_OUT = re.compile(r"-(I.+|isystem=.+|g\d?|Werror)$")
LEFT_OUT_WITH_VALUE = {"-o", "-c", "-I", "-isystem"}


def refuse(what):
    sys.exit(f"gpu_rebuild: {what}")


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


def sum_of(root, source):
    text = hashlib.sha256()
    for path in included(root, source):
        text.update(f"{path} {hashlib.sha256((root / path).read_bytes()).hexdigest()}\n".encode())
    return text.hexdigest()


def headers_between(root):
    """What cmake/plugin_build.cmake calls so."""
    roots = re.search(r"hash headers\s+([^)]+)\)", (root / "cmake/plugin_build.cmake").read_text())[1].split()
    found = sorted({path for x in roots for path in included(root, x)})
    lines = "".join(f"{path} {hashlib.sha256((root / path).read_bytes()).hexdigest()}\n" for path in found)
    return hashlib.sha256(lines.encode()).hexdigest()[:12]


# --- pack ----------------------------------------------------------------------------------------


def kept_words(words):
    out, skip = [], True  # the compiler
    for i, word in enumerate(words):
        if skip:
            skip = False
        elif word in LEFT_OUT_WITH_VALUE or words[i:i + 2] == ["-Werror", "all-warnings"]:
            skip = True
        elif not LEFT_OUT.match(word):
            out.append(word)
    return out


def as_built(build, root):
    """Of each plug-in its sources; and the object that says of which build they are."""
    plugins, says = {x: [] for x in VENDORS}, None
    for x in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(x["command"])
        made = words[words.index("-o") + 1]
        target = re.match(r"CMakeFiles/plugin_(\w+)\.dir/", made)
        if not target or not (build / made).exists():
            continue
        source = pathlib.Path(x["file"]).resolve()
        if not source.is_relative_to(root):
            refuse(f"'{build}' is the build of another checkout, {source}")
        source = source.relative_to(root).as_posix()
        newest = max((root / y).stat().st_mtime for y in included(root, source))
        entry = dict(source=source, object=made, words=kept_words(words), compiler="nvcc" if source.endswith(".cu") else "c++",
                     sum=sum_of(root, source) if newest <= (build / made).stat().st_mtime else "older")
        if target[1] == "build":
            says = dict(object=made, text=next(w for w in words if w.startswith("-DTROUPE_PLUGIN_BUILD=")).split("=", 1)[1].strip('"'))
        elif target[1] in plugins:
            plugins[target[1]].append(entry)
    return plugins, says


def linked_tests(build, root):
    """Objects, archives and sources of test_kernels_device, but for those of the plug-in; None where it was not built."""
    text = (build / "build.ninja").read_text()
    at = text.find("\nbuild bin/test_kernels_device:")
    if at < 0 or not (build / "bin/test_kernels_device").exists():
        return None
    edge, *settings = text[at + 1:text.index("\n\n", at)].splitlines()
    objects = [x for x in edge.split(" | ")[0].split()[3:] if "/plugin_cuda.dir/" not in x]
    libraries = next(x for x in settings if x.startswith("  LINK_LIBRARIES = ")).split()[2:]
    archives = [x for x in libraries if x.endswith(".a") and (not x.startswith("/") or "Catch2" in x)]
    sums = {}
    for x in json.loads((build / "compile_commands.json").read_text()):
        if re.search(r" -o tests/CMakeFiles/test_(kernels_device|operations)\.dir/", x["command"]):
            source = pathlib.Path(x["file"]).resolve()
            if source.is_relative_to(root) and not source.is_relative_to(build):
                sums[source.relative_to(root).as_posix()] = sum_of(root, source.relative_to(root).as_posix())
    return dict(objects=objects, archives=list(dict.fromkeys(archives)), sums=sums)


def pack(build, to, root=ROOT):
    plugins, says = as_built(build, root)
    if says is None:
        refuse(f"no plug-in was built in '{build}'")
    tests = linked_tests(build, root)
    parts = [says["object"], *(x["object"] for entries in plugins.values() for x in entries)]
    parts += [*tests["objects"], *tests["archives"]] if tests else []
    cache = (build / "CMakeCache.txt").read_text()
    nvcc = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache, re.M)[1]
    places = {}
    for i, part in enumerate(dict.fromkeys(parts)):
        places[part] = f"{i}_{pathlib.Path(part).name}"
        subprocess.run(["strip", "-g", "-o", to / places[part], build / part], check=True)
    for entries in plugins.values():
        for x in entries:
            x["object"] = places[x["object"]]
    if tests:
        tests.update((kind, [places[x] for x in tests[kind]]) for kind in ["objects", "archives"])
    runtime = next((x for x in toolkit(nvcc)["libraries"] if (x / "libcudart_static.a").exists()), None)
    if runtime:
        shutil.copy(runtime / "libcudart_static.a", to)
    recipe = dict(build=says["text"], says=places[says["object"]], nvcc=release(nvcc), plugins=plugins, tests=tests)
    (to / "recipe.json").write_text(json.dumps(recipe, indent=1))


# --- make ----------------------------------------------------------------------------------------


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


def find_nvcc():
    named = os.environ.get("CUDACXX")
    for x in [named] if named else [shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc", *(p / "bin/nvcc" for p in packages())]:
        if x and os.access(x, os.X_OK):
            return x
    refuse(f"there is no nvcc{f' at {named}, which CUDACXX names' if named else ''}: build where there is one, and carry it anew")


def library(kit, name):
    for folder in kit["libraries"]:
        for file in sorted(folder.glob(f"lib{name}.so*")):
            if re.fullmatch(rf"lib{name}\.so(\.\d+)*", file.name):
                return file
    refuse(f"there is no lib{name}.so in any of: {', '.join(map(str, kit['libraries']))}")


class maker:
    def __init__(self, bin_, root):
        self.bin, self.root, self.parts = bin_, root, bin_ / "rebuild"
        if not (self.parts / "recipe.json").exists():
            refuse(f"there is no rebuild/recipe.json in '{bin_}': gpu_carry.sh puts it into what is carried")
        self.recipe = json.loads((self.parts / "recipe.json").read_text())

    def changed(self, plugin):
        return [x for x in self.recipe["plugins"][plugin] if sum_of(self.root, x["source"]) != x["sum"]]

    def strangers(self):
        """Sources that the recipe does not know."""
        known = {x["source"] for entries in self.recipe["plugins"].values() for x in entries}
        folders = {pathlib.Path(x).parent for x in known if not x.startswith("kernels/backend/")}
        return [p.relative_to(self.root).as_posix() for f in sorted(folders) for p in sorted((self.root / f).iterdir())
                if p.suffix in (".cu", ".cpp") and p.relative_to(self.root).as_posix() not in known]

    def check(self):
        if f"headers {headers_between(self.root)}" not in self.recipe["build"]:
            refuse("a header that the program and its plug-ins have in common differs from what was carried (cmake/plugin_build.cmake "
                   "has the list): build both where our packages are, and carry them anew")
        if self.strangers():
            refuse(f"not in what was carried: {', '.join(self.strangers())}: build where our packages are, and carry it anew")

    def compile(self, entry):
        began = time.monotonic()
        # Its headers follow ours, so that a package's cannot be taken for one of them.
        folders = [y for x in self.kit["headers"] for y in ("-isystem", x)]
        compiler = self.nvcc if entry["compiler"] == "nvcc" else os.environ.get("CXX", "c++")
        fresh = self.parts / (entry["object"] + ".new")
        done = subprocess.run([compiler, *entry["words"], "-I", self.root, *folders, "-c", self.root / entry["source"], "-o", fresh],
                              capture_output=True, text=True)
        print(f"{time.monotonic() - began:5.1f} s {entry['source']}{'' if done.returncode == 0 else ' FAILED'}\n{done.stderr}", end="", flush=True)
        return done.returncode == 0

    def link(self, to, words):
        done = subprocess.run([os.environ.get("CXX", "c++"), "-o", f"{to}.new", *words], capture_output=True, text=True)
        if done.returncode != 0:
            refuse(f"{to.name} cannot be linked:\n{done.stderr}")
        os.replace(f"{to}.new", to)
        print(f"linked {to.name}", flush=True)

    def vendor(self, plugin):
        file = library(self.kit, VENDORS[plugin])
        return [file, f"-Wl,-rpath,{file.parent}"]

    def runtime(self):
        """CUDA's, that of the compiler where it is there."""
        folder = next((x for x in self.kit["libraries"] if (x / "libcudart_static.a").exists()), self.parts)
        return [folder / "libcudart_static.a", "-ldl", "-lrt", "-lpthread"]

    def make(self, everything):
        began = time.monotonic()
        self.check()
        changed = {x: self.changed(x) for x in self.recipe["plugins"]}
        if not everything and not any(changed.values()):
            self.tell_tests()
            return print("gpu_rebuild: the plug-ins are of these sources", flush=True)
        self.nvcc = find_nvcc()
        self.kit = toolkit(self.nvcc)
        if everything or release(self.nvcc) != self.recipe["nvcc"]:  # objects of two releases do not go together
            changed = dict(self.recipe["plugins"])
        todo = [x for entries in changed.values() for x in entries]
        todo.sort(key=lambda x: -(self.parts / x["object"]).stat().st_size)  # the longest first
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            if not all(list(pool.map(self.compile, todo))):
                refuse("not all of it compiles; the plug-ins are as they were")
        self.keep(todo, lambda x: "unfinished")  # what is stopped now is done again
        for x in todo:
            os.replace(self.parts / (x["object"] + ".new"), self.parts / x["object"])
        for plugin in (x for x, entries in changed.items() if entries):
            objects = [self.parts / x["object"] for x in self.recipe["plugins"][plugin]]
            self.link(self.bin / f"libtroupe_{plugin}.so", ["-shared", "-Wl,--no-undefined", *objects, self.parts / self.recipe["says"],
                                                            *self.vendor(plugin), *self.runtime()])
        if changed["cuda"] and self.recipe["tests"]:
            self.link_tests()
        self.recipe["nvcc"] = release(self.nvcc)
        self.keep(todo, lambda x: sum_of(self.root, x["source"]))
        print(f"gpu_rebuild: {len(todo)} of {sum(map(len, self.recipe['plugins'].values()))} sources in {time.monotonic() - began:.0f} s", flush=True)

    def keep(self, entries, text):
        for x in entries:
            x["sum"] = text(x)
        (self.parts / "recipe.json").write_text(json.dumps(self.recipe, indent=1))

    def tell_tests(self):
        """Whether they differ, too: they are not compiled here."""
        tests = self.recipe["tests"] or dict(sums={})
        changed = [x for x, text in tests["sums"].items() if sum_of(self.root, x) != text]
        if changed:
            print(f"of test_kernels_device {len(changed)} sources, or headers that they include, differ from what was carried, the first "
                  f"{changed[0]}: build it where our packages are", flush=True)
        return changed

    def link_tests(self):
        tests, plugin = self.recipe["tests"], self.recipe["plugins"]["cuda"]
        if self.tell_tests():  # objects that take a class for what it was would go with those that do not
            return (self.bin / "test_kernels_device").unlink(missing_ok=True)
        # kernels/backend is in the archives, as tests/device.cmake has it.
        kernels = [x["object"] for x in plugin if not x["source"].startswith("kernels/backend/")]
        objects = [self.parts / x for x in [*tests["objects"], *kernels]]
        archives = ["-Wl,--start-group", *(self.parts / x for x in tests["archives"]), "-Wl,--end-group"]
        others = sorted((self.bin / "lib").glob("*.so*"))
        self.link(self.bin / "test_kernels_device", [*objects, *archives, "-Wl,--as-needed", "-Wl,--allow-shlib-undefined", *others,
                                                     *self.vendor("cuda"), *self.runtime()])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--root", type=pathlib.Path, default=ROOT, help="of the sources")
    actions = a.add_subparsers(dest="action", required=True)
    packs = actions.add_parser("pack")
    packs.add_argument("build", type=pathlib.Path)
    packs.add_argument("to", type=pathlib.Path)
    makes = actions.add_parser("make")
    makes.add_argument("bin", type=pathlib.Path)
    makes.add_argument("--check", action="store_true", help="says what differs, and compiles nothing")
    makes.add_argument("--all", action="store_true", help="compiles everything")
    o = a.parse_args()
    root = o.root.resolve()
    if o.action == "pack":
        return pack(o.build.resolve(), o.to.resolve(), root)
    made = maker(o.bin.resolve(), root)
    if not o.check:
        return made.make(o.all)
    made.check()
    for x in (x for plugin in made.recipe["plugins"] for x in made.changed(plugin)):
        print(f"differs from what was carried: {x['source']}")
    made.tell_tests()


if __name__ == "__main__":
    main()
