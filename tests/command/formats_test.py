"""Compares the dumps in docs/formats with files that the program writes: runs the commands on the pages and checks
each line of each dump. Run by ctest.

    formats_test.py PROGRAM SOURCES
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGES = ["indexed_dataset.md", "gpt_index_cache.md", "checkpoint.md", "tokenizer.md"]
DUMP = re.compile(r"^    ([0-9a-f]{8}): ((?:[0-9a-f]{2} )+)", re.MULTILINE)


def sections(page):
    """Splits the example of a page at each `xxd ...`. Returns the text before the first one and all (file, dump)."""
    example = page.split("## Example\n")[1].split("\n## ")[0]
    parts = re.split(r"`xxd -g1 (?:-s \d+ )?([^`]+)`", example)
    return parts[0], list(zip(parts[1::2], parts[2::2]))


def shell(commands, folder, program):
    path = os.path.dirname(os.path.abspath(program)) + ":" + os.environ["PATH"]
    subprocess.run(["bash", "-ec", commands], cwd=folder, check=True, timeout=120,
                   capture_output=True, env={**os.environ, "PATH": path})


def complaints(program, docs, folder):
    for name in PAGES:
        before, dumps = sections((docs / name).read_text())
        shell("\n".join(x[4:] for x in before.split("\n") if x.startswith("    ")), folder, program)
        lines = 0
        for pattern, text in dumps:
            files = list(folder.glob(pattern))
            if len(files) != 1:
                yield f"{name}: {pattern} matches {len(files)} files"
                continue
            data = files[0].read_bytes()
            for at, digits in DUMP.findall(text):
                lines += 1
                there, shown = data[int(at, 16):][:len(digits) // 3], bytes.fromhex(digits)
                if there != shown:
                    yield f"{name}: {pattern} at {at} has {there.hex(' ')}, not {shown.hex(' ')}"
        if lines == 0:
            yield f"{name} has no dump"


def main(program, sources):
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(complaints(program, sources / "docs/formats", pathlib.Path(folder)))
    print("\n".join(wrong) or "all dumps match their files")
    return len(wrong) != 0


sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
