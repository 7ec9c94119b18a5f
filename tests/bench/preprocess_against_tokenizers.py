"""Compares bytes per second of `troupe preprocess` and of a pipeline with the library `tokenizers`, in turn.

    PYTHON preprocess_against_tokenizers.py --tokenizer DIR [--tokenizer DIR] [--program FILE] [--megabytes 60]
           [--rounds 3] [--workers 2] [--from DIR...]

PYTHON needs tokenizers and numpy. DIR has a tokenizer.json. The text is a JSONL file from text files of this machine's
packages. The pipeline is as fast as the library allows: one process per worker parses lines, encodes them in batches
on one thread and converts them to arrays; another process reads the input and writes .bin and .idx. The files are
those of Megatron-LM's tools/preprocess_data.py with --append-eod and the library's own special tokens. Both programs
write the same files, which are compared byte by byte. Memory is the peak of the sum over all processes (Pss). Rates of
a shared machine vary, so the result is the median of the ratios within each round.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

BATCH = 64  # documents


def write_text(path, folders, size):
    """Writes documents to a JSONL file. Returns the bytes of their text."""
    files = sorted(x for folder in folders for x in pathlib.Path(folder).rglob("*") if x.is_file())
    random.Random(1).shuffle(files)
    done = 0
    with path.open("w") as out:
        for file in files:
            try:
                text = file.read_bytes()[:200_000].decode()
            except (UnicodeDecodeError, OSError):
                continue
            if text.strip() and "\0" not in text:
                out.write(json.dumps({"text": text}) + "\n")
                done += len(text.encode())
            if done >= size:
                return done
    sys.exit(f"found {done} bytes of text, {size} needed: give more folders with --from")


def begin(folder, end):
    global tokenizer, end_of_document, dtype
    import numpy
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    # Special tokens in foreign text are plain text, as in `troupe preprocess`.
    tokenizer.encode_special_tokens = True
    end_of_document = tokenizer.token_to_id(end)
    dtype = numpy.uint16 if tokenizer.get_vocab_size() < 65500 else numpy.int32


def encoded(lines):
    import numpy
    texts = [json.loads(line)["text"] for line in lines]
    ids = [x.ids + [end_of_document] for x in tokenizer.encode_batch_fast(texts)]
    return numpy.concatenate([numpy.array(x, dtype) for x in ids]).tobytes(), [len(x) for x in ids]


def batches(file):
    lines = []
    for line in file:
        lines.append(line)
        if len(lines) == BATCH:
            yield lines
            lines = []
    if lines:
        yield lines


def pipeline(text, prefix, folder, end, workers):
    """Runs in its own process, the parent of the workers."""
    import numpy
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    begin(folder, end)
    lengths = []
    with open(text, encoding="utf-8") as file, open(f"{prefix}.bin", "wb") as out, \
            multiprocessing.get_context("fork").Pool(workers, begin, (folder, end)) as pool:
        for tokens, of_documents in pool.imap(encoded, batches(file), 4):
            out.write(tokens)
            lengths += of_documents
    lengths = numpy.array(lengths, numpy.int32)
    with open(f"{prefix}.idx", "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8 if dtype is numpy.uint16 else 4, len(lengths),
                                              len(lengths) + 1))
        out.write(lengths.tobytes())
        pointers = numpy.zeros(len(lengths), numpy.int64)
        numpy.cumsum(lengths[:-1].astype(numpy.int64) * numpy.dtype(dtype).itemsize, out=pointers[1:])
        out.write(pointers.tobytes() + numpy.arange(len(lengths) + 1, dtype=numpy.int64).tobytes())


def family(process):
    """A process and its descendants."""
    out, new = [], [process]
    while new:
        one = new.pop()
        out.append(one)
        for children in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            try:
                new += map(int, children.read_text().split())
            except OSError:
                pass
    return out


def memory(process):
    total = 0
    for one in family(process):
        try:
            words = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().split()
            total += int(words[words.index("Pss:") + 1]) * 1024
        except (OSError, ValueError):
            pass
    return total


def timed(words):
    """Returns seconds and peak bytes."""
    started = time.monotonic()
    process = subprocess.Popen([str(x) for x in words], stdout=subprocess.DEVNULL)
    peak, ended = [0], threading.Event()

    def watch():
        while not ended.wait(0.05):
            peak[0] = max(peak[0], memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    seconds = time.monotonic() - started
    ended.set()
    watcher.join()
    if status != 0:
        sys.exit(f"{' '.join(map(str, words))}\nended with {status}")
    return seconds, peak[0]


def end_of(folder):
    config = json.loads((pathlib.Path(folder) / "tokenizer_config.json").read_text())
    end = config["eos_token"]
    return end["content"] if isinstance(end, dict) else end


def compare(o, tokenizer, text, size, folder):
    ours = [o.program, "preprocess", "--input", text, "--output-prefix", folder / "ours", "--append-eod", "--workers",
            o.workers, "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", tokenizer]
    theirs = [sys.executable, __file__, "--pipeline", text, folder / "theirs", tokenizer, end_of(tokenizer), o.workers]
    rounds = []
    for n in range(o.rounds):
        turn = [timed(x) for x in ((ours, theirs) if n % 2 == 0 else (theirs, ours))]
        rounds.append(turn if n % 2 == 0 else turn[::-1])
    same = all((folder / f"ours_text_document.{x}").read_bytes() == (folder / f"theirs.{x}").read_bytes()
               for x in ("bin", "idx"))
    ratios = [b[0] / a[0] for a, b in rounds]
    rate = [size / statistics.median(x[k][0] for x in rounds) / 1e6 for k in (0, 1)]
    most = [max(x[k][1] for x in rounds) / 1e6 for k in (0, 1)]
    print(f"{pathlib.Path(tokenizer).name}: troupe {rate[0]:.1f} MB/s in {most[0]:.0f} MB, tokenizers {rate[1]:.1f} "
          f"MB/s in {most[1]:.0f} MB; ratio {statistics.median(ratios):.2f} "
          f"({' '.join(f'{x:.2f}' for x in ratios)}); files {'the same' if same else 'DIFFER'}", flush=True)
    return same


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--program", default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/troupe")
    a.add_argument("--tokenizer", action="append", required=True)
    a.add_argument("--megabytes", type=float, default=60)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--workers", type=int, default=2)
    a.add_argument("--from", dest="folders", nargs="+", default=["/usr/share/doc", "/usr/share/perl", "/usr/lib/python3"])
    o = a.parse_args()
    import numpy
    import tokenizers
    processor = next((x.split(":")[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")), "?")
    print(f"tokenizers {tokenizers.__version__}, numpy {numpy.__version__}, Python {platform.python_version()}, "
          f"{processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {o.workers} workers", flush=True)
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at)
        size = write_text(folder / "text.jsonl", o.folders, o.megabytes * 1e6)
        if not all([compare(o, x, folder / "text.jsonl", size, folder) for x in o.tokenizer]):
            sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pipeline"]:
        pipeline(*sys.argv[2:6], int(sys.argv[6]))
    else:
        main()
