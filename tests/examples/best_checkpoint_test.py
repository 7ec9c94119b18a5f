"""best_checkpoint.py with a stand-in for the program. Run by ctest:

    best_checkpoint_test.py SOURCE_DIR
"""

import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """#!/bin/sh
[ "$1" = stop ] && touch "$2/stopped"
[ -e "$2/stopped" ] && echo '{"state": "ended"}' || echo '{"state": "running"}'
"""


def write(folder, losses, without=()):
    """A run that was validated every 10 iterations."""
    lines = [json.dumps({"iteration": 1, "lm_loss": 0.1})]
    for i, loss in enumerate(losses, 1):
        lines.append(json.dumps({"iteration": 10 * i, "validation_loss": loss}))
        if 10 * i not in without:
            (folder / f"iter_{10 * i:07}").mkdir(exist_ok=True)
    (folder / "log.jsonl").write_text("\n".join(lines) + '\n{"iteration": 99, "validation_lo')


def main():
    script = pathlib.Path(sys.argv[1]) / "examples/best_checkpoint.py"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = folder / "troupe"
        program.write_text(PROGRAM)
        program.chmod(0o755)

        def run(losses, *words, without=()):
            for old in folder.glob("iter_*"):
                old.rmdir()
            write(folder, losses, without)
            made = subprocess.run([sys.executable, "-B", script, folder, "--program", program, "--seconds", "0.01", *words],
                                  capture_output=True, text=True, timeout=60)
            return made.stdout.strip(), made.stderr, made.returncode

        def expect(found, iteration):
            if found[0] != str(folder / f"iter_{iteration:07}") or found[2] != 0:
                sys.exit(f"{found} is not iteration {iteration}")

        expect(run([3, 2, 2.5, None, 2]), 20)  # the first of two equal ones
        found = run([3, 2, 2.5], without=[20])
        expect(found, 30)
        if "iteration 20 has a lower one" not in found[1]:
            sys.exit(f"the removed checkpoint is not reported: {found}")
        if run([], without=[])[2] == 0:
            sys.exit("a run without a validation has a best checkpoint")
        expect(run([3, 2, 2.5, 2.6], "--patience", "2"), 20)
        if not (folder / "stopped").exists():
            sys.exit("the run was not stopped after two validations without a lower loss")
        expect(run([3, 2], "--patience", "2"), 20)  # the run has ended: no wait


main()
