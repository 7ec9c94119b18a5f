"""Commands that write data are killed at each of their calls. Run again, the same command succeeds and leaves nothing
of the first. Run by ctest.

    killed_test.py PROGRAM DISK_FAULTS NAME...   runs the named checks, or all

DISK_FAULTS is the library of tests/support/disk_faults.hpp, preloaded to kill at a chosen call.
"""

import json
import pathlib
import shutil
import sys

import cli_test
import robust_test
from cli_test import wrong
from robust_test import expect, run


def check_killed_preprocess(folder):
    """After a kill at any call, the same command resumes and leaves only the three files."""
    (folder / "text.txt").write_text("1 2 3\n\n4 5\n")
    out, whole = folder / "out", {"x_text_document.bin", "x_text_document.idx", "x_text_document.manifest.json"}
    words = ["preprocess", "--input", folder / "text.txt", "--output-prefix", out / "x",
             "--tokenizer-type", "NullTokenizer", "--vocab-size", 100]
    left, bytes_of = set(), set()
    for nth in range(1, 200):
        out.mkdir()
        code, _, err = run(*words, fault=(out, nth, 0, 1))
        if code == 0:
            break
        left |= {x.name for x in out.iterdir()}
        # All input was read before the kill: the rest must not be done with another flag.
        if "x.journal" in {x.name for x in out.iterdir()} and json.loads((out / "x.journal").read_text())["progress"]["read"]:
            expect(2, *words, "--append-eod", says="append_eod")
        expect(0, *words)
        if {x.name for x in out.iterdir() if not x.name.startswith(".")} != whole:
            raise wrong(f"killed at call {nth}: {sorted(out.iterdir())}")
        bytes_of.add((out / "x_text_document.bin").read_bytes() + (out / "x_text_document.idx").read_bytes())
        shutil.rmtree(out)
    if nth < 15 or len(bytes_of) != 1 or "x.journal" not in left:
        raise wrong(f"killed at {nth - 1} calls: {len(bytes_of)} outputs; leftovers {left}")


def check_killed_conversations(folder):
    """After a kill at any call, the next command with the same output removes all leftovers."""
    tok, out = cli_test.tokenizer(folder), folder / "out"
    (folder / "talks.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b."}]}\n' * 9)
    words = ["conversations", "--input", folder / "talks.jsonl", "--output-prefix", out / "x", "--format", "identity",
             "--tokenizer", tok]
    whole = {f"x_conversations{which}.{kind}" for which in ("", "_answers") for kind in ("bin", "idx")}
    left = set()
    for nth in range(1, 100):
        out.mkdir()
        code, _, err = run(*words, fault=(out, nth, 0, 1))
        if code == 0:
            break
        left |= {x.name.rpartition("-")[0] for x in out.iterdir()}
        expect(0, *words)
        if {x.name for x in out.iterdir() if not x.name.startswith(".")} != whole | {"x_conversations.manifest.json"}:
            raise wrong(f"killed at call {nth}: {sorted(out.iterdir())}\n{err}")
        shutil.rmtree(out)
    if nth < 10 or not {f"{x}.partial" for x in whole} <= left:
        raise wrong(f"killed at {nth - 1} calls; leftovers {left}")


def main():
    robust_test.FAULTS = str(pathlib.Path(sys.argv[2]).resolve())
    return cli_test.main(sys.argv[1], sys.argv[3:], globals())


if __name__ == "__main__":
    sys.exit(main())
