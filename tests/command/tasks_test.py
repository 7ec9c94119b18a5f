"""Fine-tuning of a BERT, and vectors of texts. Run by ctest.

    tasks_test.py PROGRAM NAME...   runs the named checks, or all
"""

import itertools
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

import cli_test
from cli_test import refuses, works, wrong

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "bert"
sys.path.insert(0, str(GOLDEN))

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]


def model(folder):
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return ["--num-layers", 2, "--hidden-size", 16, "--num-attention-heads", 2, "--seq-length", 16,
            "--tokenizer-type", "BertWordPieceCase", "--vocab-file", folder / "vocab.txt",
            "--make-vocab-size-divisible-by", 8, "--micro-batch-size", 4, "--global-batch-size", 8, "--lr", 1e-2,
            "--hidden-dropout", 0, "--attention-dropout", 0, "--threads-per-worker", 1, "--backend", "cpu",
            "--log-interval", 1]


def csv(path, samples):
    """The label says if the text begins with an a."""
    rows = ["label,text"]
    for i in range(samples):
        rows.append(["no,b a ", "yes,a b "][i % 2] + " ".join("abcd"[(i * 7 + k) % 4] for k in range(i % 5)))
    path.write_text("\n".join(rows) + "\n")
    return path


def pretrained(folder):
    works("train", "bert", *model(folder), "--mock-data", "--train-iters", 2, "--eval-iters", 0,
          "--save", folder / "pretrained")
    return folder / "pretrained"


def task(folder):
    return ["train", "bert", *model(folder), "--task", "csv", "--task-labels", "no", "yes",
            "--task-train", csv(folder / "train.csv", 64), "--task-valid", csv(folder / "valid.csv", 21)]


def validations(folder):
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(x["iteration"], x["validation_accuracy"]) for x in records if "validation_accuracy" in x]


def check_fine_tuning(folder):
    """Accuracy is measured on all validation texts after each epoch, and the best one is told."""
    begin = pretrained(folder)
    code, out, err = cli_test.run(*task(folder), "--epochs", 10, "--pretrained-checkpoint", begin,
                                  "--save", folder / "tuned", "--run", folder / "run")
    page = out + err
    if code != 0:
        raise wrong(f"exit code {code}:\n{page}")
    if "with the parameters of" not in page:
        raise wrong(f"the start does not tell of the pretrained parameters:\n{page}")
    found = validations(folder / "tuned")
    if [at for at, _ in found] != list(range(8, 81, 8)):
        raise wrong(f"validations at {found}, expected after each epoch of 8 steps")
    if any(round(share * 21, 6) != int(round(share * 21)) for _, share in found):
        raise wrong(f"an accuracy is not a share of 21 texts: {found}")
    best = max(share for _, share in found)
    if best < 0.9 or f"best accuracy on validation: {100 * best:.4f} %" not in page:
        raise wrong(f"the best accuracy is {best}, and the console says:\n{page}")
    records = [json.loads(line) for line in (folder / "tuned/log.jsonl").read_text().splitlines()]
    told = [x["validation_best_accuracy"] for x in records if "validation_accuracy" in x]
    if told != [max(share for _, share in found[:n + 1]) for n in range(len(found))]:
        raise wrong(f"the best accuracies after each epoch are {told}, of {found}")
    status = works("status", "--run", folder / "run")
    training = json.loads(works("status", "--run", folder / "run", "--json"))["training"]
    if training["best_accuracy"] != best or f"best accuracy {100 * best:.2f} %" not in status:
        raise wrong(f"the best accuracy is {best}, and the status says:\n{status}\n{training}")
    works("memory", *task(folder)[1:], "--epochs", 10)
    works("embed", "--load", folder / "tuned", "--input", folder / "valid.csv", "--input-format", "lines",
          "--output", folder / "tuned.npy")


def check_layouts(folder):
    """Two stages and two replicas learn the same as one worker."""
    losses, accuracies = [], []
    for number, layout in enumerate(([], ["--world-size", 2, "--pipeline-model-parallel-size", 2],
                                     ["--world-size", 2])):
        saved = folder / str(number)
        works(*task(folder), "--epochs", 2, "--save", saved, *layout)
        records = [json.loads(line) for line in (saved / "log.jsonl").read_text().splitlines()]
        losses.append([x["task_loss"] for x in records if "task_loss" in x])
        accuracies.append(validations(saved))
    if any(abs(x - y) > 1e-4 * abs(x) for other in losses[1:] for x, y in zip(losses[0], other)):
        raise wrong(f"losses differ between layouts: {losses}")
    if any(other != accuracies[0] for other in accuracies[1:]):
        raise wrong(f"accuracies differ between layouts: {accuracies}")


def check_glue(folder):
    """A file of GLUE is read, and a warning about it is shown once."""
    for name, rows in (("train", 20), ("valid", 9)):
        (folder / f"{name}.tsv").write_text(
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\nbroken\n"
            + "".join(f"{i}\t1\t2\ta b\t{['c d', 'a b'][i % 2]}\t{i % 2}\n" for i in range(rows)))
    code, out, err = cli_test.run("train", "bert", *model(folder), "--task", "qqp", "--task-train",
                                  folder / "train.tsv", "--task-valid", folder / "valid.tsv", "--epochs", 2,
                                  "--save", folder / "save")
    if code != 0 or (out + err).count("train.tsv': skipped 1 line") != 1:
        raise wrong(f"exit code {code}, or not one warning:\n{out}{err}")
    if [at for at, _ in validations(folder / "save")] != [3, 5]:  # epochs of 2.5 steps
        raise wrong(f"validations: {validations(folder / 'save')}")


def check_resume(folder):
    """A fine-tuning that stopped amid an epoch goes on with the same losses, accuracies and parameters."""
    words = [*task(folder), "--epochs", 3, "--pretrained-checkpoint", pretrained(folder)]
    works(*words, "--save", folder / "whole")
    works(*words, "--save", folder / "parts", "--exit-interval", 13)
    works(*words, "--save", folder / "parts", "--load", folder / "parts")

    def steps(name):
        records = [json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]
        return [[x.get(key) for key in ("iteration", "task_loss", "accuracy", "validation_accuracy", "grad_norm")]
                for x in records]

    if steps("whole") != steps("parts"):
        raise wrong(f"a resumed run differs:\n{steps('whole')}\n{steps('parts')}")
    works("checkpoint", "diff", folder / "whole", folder / "parts")
    csv(folder / "train.csv", 65)
    refuses("files_xxh3", *words, "--save", folder / "parts", "--load", folder / "parts", "--strict-identity")


def check_killed(folder):
    """Processes of a fine-tuning are killed: its steps, accuracies and parameters keep their bits."""
    page = works("chaos", "--kills", 2, "--every-steps", 20, "--seed", 3, "--roles", "node,lane", "--kinds", "SIGKILL",
                 "--", *task(folder), "--epochs", 10, "--pretrained-checkpoint", pretrained(folder), "--world-size", 4,
                 "--pipeline-model-parallel-size", 2, "--processes", 2)
    if "all checks hold" not in page:
        raise wrong(page)


def check_wrong_tasks(folder):
    words = task(folder)
    refuses("the length of the run is missing", *words)
    refuses("give one", *words, "--epochs", 1, "--train-iters", 3)
    refuses("leave one out", *words, "--epochs", 1, "--mock-data")
    (folder / "train.csv").write_text("label,text\nmaybe,a\n")
    refuses("line 2 has the label 'maybe'", *words, "--epochs", 1)
    (folder / "train.csv").unlink()
    refuses("train.csv", *words, "--epochs", 1)
    words = task(folder)
    begin = pretrained(folder)
    refuses("another model", *words, "--epochs", 1, "--pretrained-checkpoint", begin, "--bert-post-norm")
    refuses("positions: checkpoint 16, this run 32", *words, "--epochs", 1, "--pretrained-checkpoint", begin,
            "--max-position-embeddings", 32)
    works("train", "gpt", *cli_test.SMALL, *cli_test.MOCK, "--save", folder / "gpt")
    refuses("its model is a GPT, and this run's is a BERT", *words, "--epochs", 1, "--pretrained-checkpoint",
            folder / "gpt")
    refuses("no such folder", *words, "--epochs", 1, "--pretrained-checkpoint", folder / "nowhere")


def vectors_of(path):
    data = path.read_bytes()
    shape = data[:128].decode("latin-1").split("(")[1].split(")")[0]
    rows, width = map(int, shape.split(","))
    return [struct.unpack_from(f"<{width}f", data, 128 + 4 * width * row) for row in range(rows)]


def check_vectors(folder):
    """The vector of a text depends on nothing else; its row, file and line are in the index."""
    load = ["embed", "--load", pretrained(folder)]
    texts = ["a b c", "d", "", "a " * 40, "c d a b a"]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": x}) + "\n" for x in texts))
    page = works(*load, "--input", folder / "texts.jsonl", "--output", folder / "x.npy")
    if "1 text is longer than 16 tokens" not in page:
        raise wrong(f"the page does not tell of the cut text:\n{page}")
    whole = vectors_of(folder / "x.npy")
    index = [json.loads(line) for line in (folder / "x.jsonl").read_text().splitlines()]
    if len(whole) != 5 or len(whole[0]) != 16:
        raise wrong(f"{len(whole)} vectors of {len(whole[0])} numbers")
    if [x["line"] for x in index] != [1, 2, 3, 4, 5] or [x["cut"] for x in index] != [False] * 3 + [True, False]:
        raise wrong(f"the index: {index}")
    works(*load, "--input", folder / "texts.jsonl", "--output", folder / "one.npy", "--batch-size", 1)
    for a, b in zip(whole, vectors_of(folder / "one.npy")):
        if any(abs(x - y) > 1e-5 for x, y in zip(a, b)):
            raise wrong(f"a vector depends on its batch: {a} and {b}")
    works(*load, "--input", folder / "texts.jsonl", "--output", folder / "first.npy", "--pooling", "first")
    if vectors_of(folder / "first.npy") == whole:
        raise wrong("--pooling first gives the means")
    refuses("must end in .npy", *load, "--input", folder / "texts.jsonl", "--output", folder / "x.txt")
    refuses("give a length", *load, "--input", folder / "texts.jsonl", "--output", folder / "y.npy", "--seq-length", 17)
    works("train", "gpt", *cli_test.SMALL, *cli_test.MOCK, "--save", folder / "gpt")
    refuses("name an encoder", "embed", "--load", folder / "gpt", "--input", folder / "texts.jsonl",
            "--output", folder / "y.npy")


def check_hub_vectors(folder):
    """Vectors of models with heads, and of their bodies alone, equal those of transformers to 1e-5."""
    import bert_model
    golden = json.loads((GOLDEN / "vectors.json").read_text())
    (folder / "texts.txt").write_text("\n\n".join(bert_model.TEXTS) + "\n")
    for case, body in itertools.product(("bert_post", "bert_pre"), (False, True)):
        model = folder / f"{case}_{body}"
        bert_model.write_text_model(case, model, body)
        for kind in ("mean", "first"):
            path = folder / f"{case}_{body}_{kind}.npy"
            works("embed", "--load", model, "--input", folder / "texts.txt", "--pooling", kind, "--output", path)
            found = vectors_of(path)
            index = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
            if [x["line"] for x in index] != [1, 3, 5, 7, 9] or [x["tokens"] for x in index] != [1, 3, 4, 21, 40]:
                raise wrong(f"the index: {index}")
            far = max(abs(x - y) for row, right in zip(found, golden[case]) for x, y in zip(row, right[kind]))
            if len(found) != len(golden[case]) or far > 1e-5:
                raise wrong(f"{path.stem}: {len(found)} vectors, which differ by up to {far}")


def check_killed_vectors(folder):
    """A killed command continues and gives the same bytes; another command, and changed texts, are refused."""
    texts = folder / "texts.txt"
    texts.write_text("".join(" ".join("abcd"[(i * 7 + k * k) % 4] for k in range(1 + i % 9)) + "\n"
                             for i in range(6000)))
    model = pretrained(folder)

    def words(name):
        return ["embed", "--load", model, "--input", texts, "--output", folder / f"{name}.npy", "--batch-size", 1]

    works(*words("whole"))
    journal = folder / "killed.journal"
    child = subprocess.Popen([cli_test.PROGRAM, *map(str, words("killed"))], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < end:
        if journal.exists() and json.loads(journal.read_text())["rows"] > 0:
            break
        time.sleep(0.001)
    child.send_signal(signal.SIGSTOP)
    refuses("is writing there", *words("killed"))
    child.kill()
    child.wait()
    rows = json.loads(journal.read_text())["rows"]
    if not 0 < rows < 6000 or (folder / "killed.npy").exists():
        raise wrong(f"the killed command had written {rows} rows")
    refuses("with other inputs or settings", *words("killed"), "--pooling", "first")
    about = texts.stat()
    os.utime(texts, ns=(about.st_atime_ns, about.st_mtime_ns + 10**9))  # as if it had other text of the same size
    refuses("with other inputs or settings", *words("killed"))
    os.utime(texts, ns=(about.st_atime_ns, about.st_mtime_ns))
    page = works(*words("killed"))
    if "resumed after" not in page or journal.exists() or (folder / "killed.npy.partial").exists():
        raise wrong(f"the command did not resume, or left files:\n{page}")
    for ending in ("npy", "jsonl"):
        if (folder / f"whole.{ending}").read_bytes() != (folder / f"killed.{ending}").read_bytes():
            raise wrong(f"the resumed .{ending} differs")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
