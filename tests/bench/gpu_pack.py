"""What gpu_rebuild.py needs where a GPU is, out of a build: called by gpu_carry.sh.

    gpu_pack.py [--root ROOT] BUILD FOLDER

FOLDER is given objects, archives for the program of tests, and recipe.json, which says how the build compiled each
source of the plug-ins and of which text, and of which text everything else is that the program is made of.
A source that was changed since it was compiled is packed as such, and is compiled there; a plug-in or program of
tests that is older than what it is linked from is refused.
"""

import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess

from gpu_recipe import ROOT, VENDORS, included, program_sums, refuse, release, sum_of, toolkit

# Of one machine or compiler, or of what is checked where it was built.
LEFT_OUT = re.compile(r"-(I.+|isystem=.+|g\d?|Werror)$")
LEFT_OUT_WITH_VALUE = {"-o", "-c", "-I", "-isystem"}
TEST_SOURCE = re.compile(r" -o tests/CMakeFiles/(test_kernels_device|test_operations|attention_for_device_tests)\.dir/")


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


def refuse_older(made, files):
    """Something that was linked before one of these was made: it would be carried as if it were of them."""
    for file in files:
        if file.stat().st_mtime_ns > made.stat().st_mtime_ns:
            refuse(f"'{made}' is older than '{file}': build it first")


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
        if target[1] == "build":
            says = dict(object=made, text=next(w for w in words if w.startswith("-DTROUPE_PLUGIN_BUILD=")).split("=", 1)[1].strip('"'))
        elif target[1] in plugins and (build / f"bin/libtroupe_{target[1]}.so").exists():
            newest = max((root / y).stat().st_mtime for y in included(root, source))
            text = sum_of(root, source) if newest <= (build / made).stat().st_mtime else "older"
            # `sum` is the text of which the object is, `linked` that of the plug-in.
            plugins[target[1]].append(dict(source=source, object=made, words=kept_words(words), sum=text, linked=text,
                                           compiler="nvcc" if source.endswith(".cu") else "c++"))
    for plugin, entries in plugins.items():
        if entries:
            refuse_older(build / f"bin/libtroupe_{plugin}.so", [build / x["object"] for x in entries])
    return plugins, says


def linked_tests(build, root):
    """Objects, archives and sources of test_kernels_device, but for those of the plug-in; None where it was not built."""
    text, program = (build / "build.ninja").read_text(), build / "bin/test_kernels_device"
    at = text.find("\nbuild bin/test_kernels_device:")
    if at < 0 or not program.exists():
        return None
    edge, *settings = text[at + 1:text.index("\n\n", at)].splitlines()
    linked = edge.split(" | ")[0].split()[3:]
    libraries = next(x for x in settings if x.startswith("  LINK_LIBRARIES = ")).split()[2:]
    archives = list(dict.fromkeys(x for x in libraries if x.endswith(".a") and (not x.startswith("/") or "Catch2" in x)))
    sources = set()
    for x in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(x["file"]).resolve()
        if TEST_SOURCE.search(x["command"]) and source.is_relative_to(root) and not source.is_relative_to(build):
            sources.add(source.relative_to(root).as_posix())
    refuse_older(program, [build / x for x in [*linked, *archives]])
    refuse_older(program, sorted({root / y for x in sources for y in included(root, x) if "support/attention_plugin" not in x}))
    opened = build / "bin/libtroupe_attention_for_tests.so"
    if opened.exists():
        refuse_older(opened, [root / y for x in sources if "support/attention_plugin" in x for y in included(root, x)])
    return dict(objects=[x for x in linked if "/plugin_cuda.dir/" not in x], archives=archives,
                sums={x: sum_of(root, x) for x in sorted(sources)})


def pack(build, to, root, with_tests=True):
    plugins, says = as_built(build, root)
    if says is None or not any(plugins.values()):
        refuse(f"no plug-in was built in '{build}'")
    nvcc = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    if not nvcc:
        refuse(f"'{build}' was configured without nvcc: CMakeCache.txt names no CMAKE_CUDA_COMPILER")
    tests = linked_tests(build, root) if with_tests else None
    parts = [says["object"], *(x["object"] for entries in plugins.values() for x in entries)]
    parts += [*tests["objects"], *tests["archives"]] if tests else []
    places = {}
    for i, part in enumerate(dict.fromkeys(parts)):
        places[part] = f"{i}_{pathlib.Path(part).name}"
        subprocess.run(["strip", "-g", "-o", to / places[part], build / part], check=True)
    for entries in plugins.values():
        for x in entries:
            x["object"] = places[x["object"]]
    if tests:
        tests.update((kind, [places[x] for x in tests[kind]]) for kind in ["objects", "archives"])
    runtime = next((x for x in toolkit(nvcc[1])["libraries"] if (x / "libcudart_static.a").exists()), None)
    if runtime:
        shutil.copy(runtime / "libcudart_static.a", to)
    recipe = dict(build=says["text"], says=places[says["object"]], nvcc=release(nvcc[1]), plugins=plugins, tests=tests,
                  program=program_sums(root, plugins))
    (to / "recipe.json").write_text(json.dumps(recipe, indent=1))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--root", type=pathlib.Path, default=ROOT, help="of the sources")
    a.add_argument("build", type=pathlib.Path)
    a.add_argument("to", type=pathlib.Path)
    o = a.parse_args()
    pack(o.build.resolve(), o.to.resolve(), o.root.resolve())


if __name__ == "__main__":
    main()
