"""Compiles anew, where a GPU is, those sources of plug-ins that differ from what was carried there.

    gpu_rebuild.py [--root ROOT] BIN [--check] [--all]   called by gpu_rebuild.sh

BIN has the programs, and BIN/rebuild what gpu_pack.py made. A source counts as changed when it or a header of ours
that it includes has another text. The program itself cannot be made there: where anything that it is made of
differs, that is refused. BIN/kernels.txt says of which text the plug-ins are; gpu_run.py puts it beside the figures.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from gpu_recipe import (ROOT, VENDORS, folders_of, headers_between, packages, program_sums, refuse, release, sum_of, toolkit)

TESTS = "test_kernels_device"


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


def differ(files, what, from_="what was carried"):
    return f"{len(files)} {what} differ{'s' if len(files) == 1 else ''} from {from_}, the first {files[0]}"


class maker:
    def __init__(self, bin_, root):
        self.bin, self.root, self.parts = bin_, root, bin_ / "rebuild"
        if not (self.parts / "recipe.json").exists():
            refuse(f"there is no rebuild/recipe.json in '{bin_}': gpu_carry.sh puts it into what is carried")
        self.recipe = json.loads((self.parts / "recipe.json").read_text())
        self.entries = [x for entries in self.recipe["plugins"].values() for x in entries]

    # --- what differs ---

    def strangers(self):
        """Sources that the recipe does not know."""
        known = {x["source"] for x in self.entries}
        return [p.relative_to(self.root).as_posix() for f in sorted(folders_of(self.recipe["plugins"]))
                for p in sorted((self.root / f).iterdir()) if p.suffix in (".cu", ".cpp") and p.relative_to(self.root).as_posix() not in known]

    def obstacles(self):
        """Why nothing may be compiled here."""
        carried, here = self.recipe["program"], program_sums(self.root, self.recipe["plugins"])
        program = sorted(x for x in {*carried, *here} if carried.get(x) != here.get(x))
        if program:
            yield differ(program, "of the program's own files")
        if f"headers {headers_between(self.root)}" not in self.recipe["build"]:
            yield ("a header that the program and its plug-ins have in common (cmake/plugin_build.cmake has the list) differs from what "
                   "was carried")
        if self.strangers():
            yield f"not in what was carried: {', '.join(self.strangers())}"

    def tests_differ(self):
        """Those sources of the tests that have, or include, another text: they are not compiled here."""
        return [x for x, text in (self.recipe["tests"] or dict(sums={}))["sums"].items() if sum_of(self.root, x) != text]

    def why_no_tests(self):
        """Why there are no tests of these kernels; empty where there are."""
        if not self.recipe["tests"]:
            return f"{TESTS} was not built where this was packed"
        files = self.tests_differ()
        if files:
            return f"{differ(files, f'of the sources of {TESTS}, or what they include,')}; build it where our packages are"
        if not (self.bin / TESTS).exists():
            return self.recipe.get("unlinked") or f"there is no {TESTS} in '{self.bin}'"
        return ""

    def tell(self):
        """To kernels.txt, and to who calls: of which text the plug-ins and the tests are."""
        here = [x for x in self.entries if x.get("here")]
        others = [x["source"] for x in self.entries if sum_of(self.root, x["source"]) != x["linked"]]
        obstacles, no_tests = list(self.obstacles()), self.why_no_tests()
        linked = hashlib.sha256("".join(f"{x['source']} {x['linked']}\n" for x in self.entries).encode()).hexdigest()[:12]
        reasons = ([differ(others, "of the plug-ins' sources", "what is measured")] if others else []) + obstacles
        lines = [f"kernels: {f'{len(here)} of {len(self.entries)} sources compiled here' if here else 'as carried'}, sum {linked}",
                 f"differs: {'; '.join(reasons)}", f"tests: {no_tests}", f"build: {self.recipe['build']}",
                 *(f"compiled here: {x['source']} {x['linked'][:12]}" for x in here), *(f"not of this text: {x}" for x in others)]
        fresh = self.bin / "kernels.txt.new"
        fresh.write_text("".join(f"{x}\n" for x in lines))
        os.replace(fresh, self.bin / "kernels.txt")
        for x in [*lines[:1], *lines[4:], *obstacles, *filter(None, [no_tests])]:
            print(x, flush=True)

    # --- compile and link ---

    def compile(self, entry):
        began = time.monotonic()
        # Its headers follow ours, so that a package's cannot be taken for one of them. The system's own folder
        # has a place of its own in the compiler's list.
        folders = [y for x in self.kit["headers"] if x.resolve() != pathlib.Path("/usr/include") for y in ("-isystem", x)]
        compiler = self.nvcc if entry["compiler"] == "nvcc" else os.environ.get("CXX", "c++")
        fresh = self.parts / (entry["object"] + ".new")
        done = subprocess.run([compiler, *entry["words"], "-I", self.root, *folders, "-c", self.root / entry["source"], "-o", fresh],
                              capture_output=True, text=True)
        print(f"{time.monotonic() - began:5.1f} s {entry['source']}{'' if done.returncode == 0 else ' FAILED'}\n{done.stderr}", end="", flush=True)
        return done.returncode == 0

    def link(self, name, words):
        """To a name of its own; what went wrong, or nothing."""
        done = subprocess.run([os.environ.get("CXX", "c++"), "-o", self.bin / f"{name}.new", *words], capture_output=True, text=True)
        return "" if done.returncode == 0 else f"{name} cannot be linked:\n{done.stderr}"

    def vendor(self, plugin):
        file = library(self.kit, VENDORS[plugin])
        return [file, f"-Wl,-rpath,{file.parent}"]

    def runtime(self):
        """CUDA's, that of the compiler where it is there."""
        folder = next((x for x in self.kit["libraries"] if (x / "libcudart_static.a").exists()), self.parts)
        return [folder / "libcudart_static.a", "-ldl", "-lrt", "-lpthread"]

    def link_plugin(self, plugin):
        objects = [self.parts / x["object"] for x in self.recipe["plugins"][plugin]]
        return self.link(f"libtroupe_{plugin}.so", ["-shared", "-Wl,--no-undefined", *objects, self.parts / self.recipe["says"],
                                                    *self.vendor(plugin), *self.runtime()])

    def link_tests(self):
        tests, plugin = self.recipe["tests"], self.recipe["plugins"]["cuda"]
        # kernels/backend is in the archives, as tests/device.cmake has it.
        kernels = [x["object"] for x in plugin if not x["source"].startswith("kernels/backend/")]
        objects = [self.parts / x for x in [*tests["objects"], *kernels]]
        archives = ["-Wl,--start-group", *(self.parts / x for x in tests["archives"]), "-Wl,--end-group"]
        others = sorted((self.bin / "lib").glob("*.so*"))
        return self.link(TESTS, [*objects, *archives, "-Wl,--as-needed", "-Wl,--allow-shlib-undefined", *others,
                                 *self.vendor("cuda"), *self.runtime()])

    def keep(self, entries, **what):
        for x in entries:
            x.update(what)
        (self.parts / "recipe.json").write_text(json.dumps(self.recipe, indent=1))

    def to_do(self, everything):
        """The plug-ins with those sources that are to be compiled; and whether the tests are to be linked."""
        changed = {plugin: [x for x in entries if everything or sum_of(self.root, x["source"]) != x["sum"]]
                   for plugin, entries in self.recipe["plugins"].items()}
        unlinked = bool(self.recipe["tests"]) and not (self.bin / TESTS).exists() and not self.tests_differ()
        return changed, bool(self.recipe["tests"]) and bool(changed["cuda"]) or unlinked

    def make(self, everything):
        began = time.monotonic()
        obstacle = next(self.obstacles(), None)
        if obstacle:
            self.tell()
            refuse(f"{obstacle}: build where our packages are, and carry it anew")
        changed, tests = self.to_do(everything)
        if not any(changed.values()) and not tests:
            self.tell()
            return print("gpu_rebuild: the plug-ins are of these sources", flush=True)
        self.nvcc = find_nvcc()
        self.kit = toolkit(self.nvcc)
        if release(self.nvcc) != self.recipe["nvcc"]:  # objects of two releases do not go together
            changed, tests = self.to_do(True)
        todo = [x for entries in changed.values() for x in entries]
        texts = {x["source"]: sum_of(self.root, x["source"]) for x in todo}
        todo.sort(key=lambda x: -(self.parts / x["object"]).stat().st_size)  # the longest first
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            if not all(list(pool.map(self.compile, todo))):
                refuse("not all of it compiles; the plug-ins are as they were")
        self.keep(todo, sum="unfinished")  # what is stopped now is done again
        for x in todo:
            os.replace(self.parts / (x["object"] + ".new"), self.parts / x["object"])
        self.replace([x for x, entries in changed.items() if entries], todo, tests)
        for x in todo:
            x["sum"] = x["linked"] = texts[x["source"]]
        self.recipe["nvcc"] = release(self.nvcc)
        self.keep(todo)
        self.tell()
        print(f"gpu_rebuild: {len(todo)} of {len(self.entries)} sources in {time.monotonic() - began:.0f} s", flush=True)

    def replace(self, plugins, todo, tests):
        """All plug-ins or none; tests that are not of these kernels are removed."""
        wrong = list(filter(None, map(self.link_plugin, plugins)))
        if wrong:
            for x in plugins:
                (self.bin / f"libtroupe_{x}.so.new").unlink(missing_ok=True)
            refuse("\n".join(wrong) + "\nthe plug-ins are as they were")
        # Objects that take a class for what it was would go with those that do not.
        unlinked = tests and (self.tests_differ() and self.why_no_tests() or self.link_tests())
        self.recipe["unlinked"] = " ".join(unlinked.split()) if unlinked else ""
        self.keep(todo, linked="unfinished", here=True)
        made = [f"libtroupe_{x}.so" for x in plugins] + ([TESTS] if tests and not unlinked else [])
        if unlinked:
            print(unlinked, flush=True)
            (self.bin / TESTS).unlink(missing_ok=True)
        for x in made:
            os.replace(self.bin / f"{x}.new", self.bin / x)
            print(f"linked {x}", flush=True)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--root", type=pathlib.Path, default=ROOT, help="of the sources")
    a.add_argument("bin", type=pathlib.Path)
    a.add_argument("--check", action="store_true", help="says what differs, and compiles nothing")
    a.add_argument("--all", action="store_true", help="compiles everything")
    o = a.parse_args()
    made = maker(o.bin.resolve(), o.root.resolve())
    made.tell() if o.check else made.make(o.all)


if __name__ == "__main__":
    main()
