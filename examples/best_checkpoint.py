#!/usr/bin/env python3
"""Prints the checkpoint with the lowest validation loss, and stops a run that no longer improves.

    python3 examples/best_checkpoint.py ckpt                 # "ckpt/iter_0000300": for --load and checkpoint export
    python3 examples/best_checkpoint.py ckpt --patience 3    # follows the run; stops it after 3 validations without a
                                                             # lower loss, then prints the same

ckpt is the --save folder of `troupe train`. Train with --save-interval equal to --eval-interval and without
--keep-last, so that each validation has a checkpoint.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time


def validations(log):
    """(iteration, loss) of the complete lines of the log."""
    out = []
    for line in log.read_text().splitlines(keepends=True) if log.exists() else []:
        record = json.loads(line) if line.endswith("\n") else {}
        if record.get("validation_loss") is not None:
            out.append((record["iteration"], record["validation_loss"]))
    return out


def since_best(losses):
    """Validations after the one with the lowest loss."""
    return len(losses) - 1 - min(range(len(losses)), key=lambda i: losses[i]) if losses else 0


def is_running(program, folder):
    told = subprocess.run([program, "status", folder, "--json"], stdout=subprocess.PIPE)
    return told.returncode == 0 and json.loads(told.stdout)["state"] == "running"


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("folder", type=pathlib.Path)
    words.add_argument("--log", type=pathlib.Path, help="the run's --log-file. Default: log.jsonl in the folder")
    words.add_argument("--patience", type=int, help="follow the run and stop it after so many validations")
    words.add_argument("--seconds", type=float, default=5, help="between two looks at the log")
    words.add_argument("--program", default="troupe")
    given = words.parse_args()
    log = given.log or given.folder / "log.jsonl"
    while given.patience and is_running(given.program, given.folder):
        if since_best([loss for _, loss in validations(log)]) >= given.patience:
            subprocess.run([given.program, "stop", given.folder], stdout=sys.stderr, check=True)
            break
        time.sleep(given.seconds)
    found = sorted((loss, iteration) for iteration, loss in validations(log))
    saved = [(loss, given.folder / f"iter_{iteration:07}") for loss, iteration in found]
    saved = [(loss, checkpoint) for loss, checkpoint in saved if checkpoint.is_dir()]
    if not saved:
        sys.exit(f"no iteration in {log} has a validation loss and a checkpoint in {given.folder}")
    print(f"validation loss {saved[0][0]:.6g}", file=sys.stderr)
    if found[0][0] < saved[0][0]:
        print(f"iteration {found[0][1]} has a lower one, {found[0][0]:.6g}, but no checkpoint", file=sys.stderr)
    print(saved[0][1])


if __name__ == "__main__":
    main()
