"""Installs into a scratch folder, moves it, and builds and runs stories against it with nothing but
find_package(troupe). Run by ctest:

    install_test.py CMAKE SOURCE_DIR BUILD_DIR COMPILER --flags=FLAGS
"""

import pathlib
import re
import shutil
import subprocess
import sys

STORIES = ["03_own_layer", "05_monitor", "10_own_processes"]  # troupe::runtime, troupe::actors, over UCX
RUN = ("--mock-data --tokenizer-type NullTokenizer --vocab-size 63 --num-layers 2 --hidden-size 32 "
       "--num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 "
       "--global-batch-size 8 --lr 1e-3 --lr-decay-iters 8 --log-interval 1 --eval-iters 0 --train-iters 2 "
       "--pipeline-model-parallel-size 2 --backend cpu").split()
PRIVATE = re.compile(r"CLI11|CLI/|hwy/|dnnl\.|omp\.h|spdlog/|openssl/|pcre2\.h|utf8proc\.h|zlib\.h|zstd\.h|unicode/|curl/|xxhash\.h|lua\.hpp|<uc[pst]/")


def run(*command):
    command = [str(x) for x in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def leaks(prefix, folders):
    """Text that an installed package must not contain: folders of the build, and headers of the sources."""
    files = [*prefix.rglob("*.hpp"), *prefix.rglob("*.cmake")]
    if len(files) < 50:
        yield f"only {len(files)} headers and package files were installed"
    for path in files:
        text = path.read_text()
        for folder in folders:
            if str(folder) in text:
                yield f"{path} names the folder {folder}"
        if path.suffix == ".hpp" and (found := PRIVATE.search(text)):
            yield f"{path} includes '{found[0]}', which is private"
    for name in ("include/troupe/actors/command", "include/troupe/kernels/cpu"):
        if (prefix / name).exists():
            yield f"the private folder {name} is installed"


def dead_links(documents):
    """Links of installed pages to missing files."""
    links = [(page, link) for page in documents.rglob("*.md")
             for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
             if not re.match(r"[a-z]+:", link)]
    if len(links) < 100:
        yield f"only {len(links)} links in the installed pages"
    for page, link in links:
        if not (page.parent / link).exists():
            yield f"{page}: {link} is not there"


def main(cmake, source, build, compiler, flags):
    flags = flags.removeprefix("--flags=")  # alone it may be empty, and CMake drops empty arguments
    sys.path.insert(0, str(source / "tests/examples"))
    import story

    work = build / "tests/package"  # always the same, so that ccache knows it
    shutil.rmtree(work, ignore_errors=True)
    run(cmake, "--install", build, "--prefix", work / "first")
    prefix = work / "moved"  # a package may lie anywhere
    (work / "first").rename(prefix)
    wrong = list(leaks(prefix, [source, build]))

    for name in ("share/man/man1/troupe.1.gz", "share/bash-completion/completions/troupe",
                 "share/doc/troupe/copyright", "share/doc/troupe/docs/tour.md", "lib/troupe/libtroupe_ucx.so",
                 *[f"share/doc/troupe/{x}" for x in ["LICENSE", "examples/README.md", "examples/draw_trace.py",
                                                     "examples/monitoring/prometheus.yml",
                                                     "examples/quickstart.sh"]]):
        if not (prefix / name).is_file():
            wrong.append(f"{name} is not installed")
    wrong += dead_links(prefix / "share/doc/troupe")
    version = run(prefix / "bin/troupe", "--version")
    wanted = re.search(r"VERSION ([\d.]+)", (source / "CMakeLists.txt").read_text().split("project(")[1])
    if wanted[1] not in version:
        wrong.append(f"--version says {version!r}, CMakeLists.txt {wanted[1]}")

    said = run(prefix / "bin/troupe", "train", "gpt", *RUN, "--transport", "ucx")
    if not re.search(r"iteration +2/ +2 ", said):
        wrong.append(f"the moved program does not train over UCX:\n{said}")

    shutil.copytree(prefix / "share/doc/troupe/examples", work / "mine")
    run(cmake, "-S", work / "mine", "-B", work / "mine/build", "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_CXX_FLAGS={flags} -Wall -Werror",
        *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if (ccache := shutil.which("ccache")) else []))
    run(cmake, "--build", work / "mine/build", "--target", *[f"story_{x}" for x in STORIES])
    for name in STORIES:
        wrong += story.complaints(work / f"mine/build/story_{name}", work / f"mine/{name}.cpp")
    print("\n".join(wrong) or "installed, moved, found, built against and run")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), *sys.argv[4:6]))
