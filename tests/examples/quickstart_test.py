"""quickstart.sh with a stand-in for the program: keeps every file of the user, finds a text by a relative path, and puts
the log beside the checkpoints. Run by ctest:

    quickstart_test.py SOURCE_DIR
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TEXT = "".join(f"line {i} of a text of the user's own, long enough to hold some of it out\n" for i in range(3000))
PROGRAM = """#!/bin/sh
echo "$@" >>"$CALLS"
"""


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def checkout(source, folder):
    """A checkout that is built, with programs that only write down how they are called."""
    executable(folder / "CMakeLists.txt", "")
    (folder / "examples").mkdir()
    shutil.copy(source / "examples/quickstart.sh", folder / "examples")
    executable(folder / "examples/install_packages.sh", "")
    executable(folder / "bin/cmake", "#!/bin/sh\n")
    executable(folder / "build/release/bin/troupe", PROGRAM)


def main(source):
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        top, elsewhere, calls = scratch / "checkout", scratch / "elsewhere", scratch / "calls"
        top.mkdir()
        elsewhere.mkdir()
        checkout(source, top)
        environment = {**os.environ, "PATH": f"{top}/bin:{os.environ['PATH']}", "CALLS": str(calls)}

        def quickstart(*words, cwd):
            calls.write_text("")
            done = subprocess.run(["bash", top / "examples/quickstart.sh", *words], cwd=cwd, env=environment,
                                  capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                wrong.append(f"quickstart.sh {words} in {cwd} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            return done.stdout

        def expect(what, holds):
            if not holds:
                wrong.append(what)

        own = top / "runs/quickstart/mine.txt"
        executable(own, TEXT)
        (own.parent / "checkpoints").mkdir()
        said = quickstart("runs/quickstart/mine.txt", cwd=top)
        expect("the user's text is gone", own.exists() and own.read_text() == TEXT)
        expect("the earlier checkpoints are gone", (own.parent / "checkpoints").exists())
        expect("the new run does not have its own folder", (top / "runs/quickstart-2/text.txt").exists())
        expect(f"the new folder is not named:\n{said}", "this run uses runs/quickstart-2\n" in said)
        words = calls.read_text().split()
        expect("the log does not stand beside the checkpoints", "--log-file" not in words)
        expect("the curve is not drawn from the checkpoints' folder",
               "plot runs/quickstart-2/checkpoints --output" in calls.read_text())

        (elsewhere / "mine.txt").write_text(TEXT)
        quickstart("mine.txt", cwd=elsewhere)
        expect("a relative path does not begin where the command was typed",
               (top / "runs/quickstart-3/text.txt").exists())
    print("\n".join(wrong) or "quickstart.sh keeps what it finds")
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
