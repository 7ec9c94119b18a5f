"""Uses of a trained model: generate, eval, checkpoint export and import. Run by ctest.

    use_test.py PROGRAM NAME...   runs the named checks, or all
"""

import fcntl
import json
import os
import struct
import sys

import cli_test
from cli_test import MOCK, SMALL, refuses, run, tokenizer, works, wrong


def trained(folder, *more):
    """Trains a text model for six steps. Returns its --save folder."""
    tok = tokenizer(folder)
    if not (folder / "d_text_document.idx").exists():
        works("preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "d",
              "--tokenizer", tok, "--append-eod")
    save = folder / f"save{len(list(folder.glob('save*')))}"
    works("train", "gpt", *SMALL, "--data-path", folder / "d_text_document", "--tokenizer", tok,
          "--split", "100,0,0", "--eval-iters", 0, "--save", save, *more)
    return save


def expect(seen, wanted, what):
    if seen != wanted:
        raise wrong(f"{what}: {seen!r}, expected {wanted!r}")


def tensors(path):
    """Tensors of a safetensors file by name: (type, extents, bytes)."""
    raw = path.read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + size])
    head.pop("__metadata__", None)
    out = {}
    for name, x in head.items():
        first, end = x["data_offsets"]
        out[name] = (x["dtype"], x["shape"], raw[8 + size + first:8 + size + end])
    return out


LLAMA = ["--position-embedding-type", "rope", "--normalization", "RMSNorm", "--swiglu",
         "--disable-bias-linear", "--untie-embeddings-and-output-weights", "--attention-dropout",
         0, "--hidden-dropout", 0]


def check_export(folder):
    for name, shape in [("gpt2", []), ("llama", LLAMA)]:
        save, hub, back = trained(folder, *shape), folder / name, folder / (name + "_back")
        said = works("checkpoint", "export", save, "--hf", hub, "--shard-size", 1e-5)
        if "with its tokenizer" not in said:
            raise wrong(f"export prints: {said}")
        config = json.loads((hub / "config.json").read_text())
        expect(config["model_type"], name, "model_type")
        files = {x.name for x in hub.iterdir()}
        for needed in ["config.json", "model.safetensors.index.json", "tokenizer.json",
                       "tokenizer_config.json", "vocab.json", "merges.txt"]:
            if needed not in files:
                raise wrong(f"{needed} is missing: {files}")
        vocabulary = json.loads((hub / "tokenizer.json").read_text())["model"]["vocab"]
        expect(vocabulary, json.loads((hub / "vocab.json").read_text()), "tokenizer.json")
        expect(config["eos_token_id"], vocabulary["<|endoftext|>"], "eos_token_id")
        for name_of_one_of_two in ["vocab.json", "merges.txt"]:  # transformers writes neither file again
            (hub / name_of_one_of_two).unlink()
        works("checkpoint", "import", "--hf", hub, "--save", back)
        asked = ["tokenizer", "encode", "--special-tokens", "--text", "The actor<|endoftext|> left"]
        expect(works(*asked, "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", hub),
               works(*asked, "--tokenizer", folder / "tok"), "ids by tokenizer.json")
        for words in [["eval", "--json", "--input", folder / "text.txt"],
                      ["generate", "--prompt", "The actor", "--tokens", 8, "--greedy"]]:
            here, *there = (works(*words, "--load", x) for x in (save, back, hub))
            for one in there:
                expect(one.replace('"iteration": 0', '"iteration": 6'), here, f"{name} {words[0]}")
        code, out, err = run("checkpoint", "diff", "--json", save, back)
        found = [x for x in json.loads(out)["tensors"] if not x["name"].startswith("exp_avg")]
        if code != 1 or not found or any(x["state"] != "equal" for x in found):
            raise wrong(f"parameters after export and import: {err}\n{out[:2000]}")
        refuses("--finetune", "train", "gpt", *SMALL, *shape, "--data-path",
                folder / "d_text_document", "--tokenizer", folder / "tok", "--load", back)
        works("train", "gpt", *SMALL, *shape, "--data-path", folder / "d_text_document",
              "--tokenizer", folder / "tok", "--split", "100,0,0", "--eval-iters", 0, "--load",
              back, "--finetune", "--max-position-embeddings", 16)
        refuses("not empty", "checkpoint", "export", save, "--hf", hub)
        refuses("has checkpoints already", "checkpoint", "import", "--hf", hub, "--save", back)


def check_gguf(folder):
    """A GGUF file of a model serves as its checkpoint does."""
    os.environ["HF_HUB_CACHE"] = str(folder / "cache")
    for name, shape in [("gpt2", []), ("llama", LLAMA)]:
        save, file, back = trained(folder, *shape), folder / f"{name}.gguf", folder / f"{name}_back"
        said = works("checkpoint", "export", save, "--gguf", file)
        if f"wrote '{file}'" not in said or "with its tokenizer" not in said:
            raise wrong(f"export prints: {said}")
        generate = ["generate", "--prompt", "The actor", "--tokens", 12, "--temperature", 0.9, "--load"]
        expect(works(*generate, file), works(*generate, save), "text of the file and of its checkpoint")
        if "parameters" not in works("checkpoint", "import", "--gguf", file, "--save", back):
            raise wrong("import prints nothing about parameters")
        again = folder / f"{name}_again.gguf"
        works("checkpoint", "export", back, "--gguf", again)
        works(*generate, again)
        run_folder = folder / f"{name}_run"
        works("train", "gpt", *SMALL[6:], "--load-hf" if name == "gpt2" else "--load", file, "--data-path",
              folder / "d_text_document", "--split", "100,0,0", "--eval-iters", 0, "--save", run_folder)
        configuration = (run_folder / "config.yaml").read_text()
        if str(file) not in configuration or str(folder / "cache") in configuration:
            raise wrong(f"config.yaml does not name the file: {configuration}")
        refuses("exists; name a new file", "checkpoint", "export", save, "--gguf", file)
        small = folder / f"{name}_q8_0.gguf"
        works("checkpoint", "export", save, "--gguf", small, "--dtype", "q8_0")
        works(*generate, small)
        if small.stat().st_size >= file.stat().st_size:
            raise wrong("a quantised file is not smaller")
    refuses("exclude each other", "checkpoint", "export", save, "--gguf", folder / "x.gguf", "--hf", folder / "x")
    refuses("type of GGUF files", "checkpoint", "export", save, "--hf", folder / "x", "--dtype", "q8_0")
    refuses("begins with GGUF", "checkpoint", "import", "--gguf", folder / "text.txt", "--save", folder / "y")
    file.write_bytes(file.read_bytes()[:500])
    refuses("cut off or damaged", "generate", "--load", file, "--prompt", "The")


def check_special_tokens(folder):
    """Special ids and generation_config.json of an imported model survive its export, also after training, and a text
    ends at them.
    """
    hub, imported = folder / "hub", folder / "imported"
    works("checkpoint", "export", trained(folder, *LLAMA), "--hf", hub)
    config = json.loads((hub / "config.json").read_text())
    ids = {"bos_token_id": 4, "eos_token_id": [config["eos_token_id"], 5, 6], "pad_token_id": 7}
    (hub / "config.json").write_text(json.dumps({**config, **ids}))
    (hub / "generation_config.json").write_text(json.dumps({**ids, "do_sample": True, "temperature": 0.6}))
    works("checkpoint", "import", "--hf", hub, "--save", imported)
    tuned = trained(folder, *LLAMA, "--load", imported, "--finetune")
    loaded = folder / "loaded"
    works("train", "gpt", *SMALL[6:], "--load-hf", hub, "--data-path", folder / "d_text_document", "--split", "100,0,0",
          "--eval-iters", 0, "--save", loaded)
    for save in [imported, tuned, loaded]:
        out = folder / f"{save.name}_out"
        works("checkpoint", "export", save, "--hf", out)
        for name in ["config.json", "generation_config.json"]:
            seen, wanted = (json.loads((x / name).read_text()) for x in (out, hub))
            expect({x: seen.get(x) for x in ids}, ids, f"special ids of '{save.name}', {name}")
        expect(seen, wanted, f"generation_config.json of '{save.name}'")
    ending, prompts = folder / "ending", folder / "prompts.txt"
    (hub / "generation_config.json").write_text(json.dumps({"eos_token_id": list(range(config["vocab_size"]))}))
    works("checkpoint", "import", "--hf", hub, "--save", ending)
    prompts.write_text("the\n")
    for load in [hub, ending]:
        for more in [[], ["--beam-size", 2]]:
            said = json.loads(works("generate", "--load", load, "--prompts", prompts, *more))
            expect((said["tokens"], said["finish_reason"]), (0, "end_of_document"), f"text of '{load.name}'")


def check_export_refusals(folder):
    save = trained(folder, "--position-embedding-type", "rope")
    refuses("--normalization RMSNorm", "checkpoint", "export", save, "--hf", folder / "hub")
    refuses("--hf DIR is missing", "checkpoint", "export", save)
    refuses("name one checkpoint", "checkpoint", "export", "--hf", folder / "hub")
    refuses("float32, bfloat16, float16", "checkpoint", "export", save, "--hf", "x", "--dtype", "int8")
    refuses("--save DIR is missing", "checkpoint", "import", "--hf", folder)
    refuses("config.json", "checkpoint", "import", "--hf", folder, "--save", folder / "new")
    if (folder / "hub").exists() or list(folder.glob(".*partial*")):
        raise wrong("a refused export left files behind")
    works("train", "gpt", *SMALL, *MOCK, "--save", folder / "mock")
    said = works("checkpoint", "export", folder / "mock", "--hf", folder / "hub")
    if "without a tokenizer" not in said or (folder / "hub" / "vocab.json").exists():
        raise wrong(f"export of a model without a tokenizer: {said}")
    said = works("checkpoint", "import", "--hf", folder / "hub", "--save", folder / "back")
    if "written as ids" not in said or "import into another folder, with --tokenizer DIR" not in said:
        raise wrong(f"import without a tokenizer prints: {said}")
    works("generate", "--load", folder / "back", "--prompt", "1 2 3", "--tokens", 3)
    refuses("import it again into another folder", "generate", "--load", folder / "back", "--tokenizer",
            folder / "tok", "--prompt", "a", "--tokens", 3)
    # The suggestion works: a tokenizer from another folder, imported into a new folder.
    texts, hub = trained(folder, *LLAMA), folder / "without"
    works("checkpoint", "export", texts, "--hf", hub)
    for name in ["tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"]:
        (hub / name).unlink()
    words = ["checkpoint", "import", "--hf", hub, "--save"]
    if "written as ids" not in works(*words, folder / "ids"):
        raise wrong("an import without a tokenizer does not say so")
    refuses("has checkpoints already", *words, folder / "ids", "--tokenizer", folder / "tok")
    if (folder / "ids" / "tokenizer").exists():
        raise wrong("a refused import left a tokenizer in the folder of another one")
    (folder / "texts").mkdir()
    with open(folder / "texts" / ".lock", "w") as lock:  # like a run that has not saved yet
        fcntl.flock(lock, fcntl.LOCK_EX)
        refuses("is saving there", *words, folder / "texts", "--tokenizer", folder / "tok")
    if (folder / "texts" / "tokenizer").exists():
        raise wrong("a refused import left a tokenizer in the folder of a live run")
    works(*words, folder / "texts", "--tokenizer", folder / "tok")
    ask = ["generate", "--prompt", "The actor", "--tokens", 8, "--greedy", "--load"]
    expect(works(*ask, folder / "texts"), works(*ask, texts), "text after following the suggestion")


def check_eval(folder):
    save = trained(folder)
    found = json.loads(works("eval", "--json", "--load", save, "--input", folder / "text.txt",
                             "--trigram-from", folder / "text.txt", "--logits", folder / "l"))
    for key in ["loss", "perplexity", "bits_per_byte", "trigram_bits_per_byte", "tokens"]:
        if not found[key] > 0:
            raise wrong(f"{key} is {found[key]}")
    page = works("eval", "--load", save, "--input", folder / "text.txt")
    if f"perplexity {found['perplexity']:.2f}" not in page:
        raise wrong(f"page and JSON differ: {page}")
    narrow = json.loads(works("eval", "--json", "--load", save, "--input", folder / "text.txt", "--bf16"))
    if (found["precision"], narrow["precision"]) != ("f32", "bf16") or " in f32, " not in page:
        raise wrong(f"precisions are {found['precision']} and {narrow['precision']}: {page}")
    if not 0 < abs(narrow["loss"] / found["loss"] - 1) < 0.01:
        raise wrong(f"in bf16 the loss is {narrow['loss']}, in fp32 {found['loss']}")
    logits = tensors(folder / "l")
    expect(logits["tokens"][:2], ("I32", [16]), "tokens")
    words = len(json.loads((folder / "tok" / "vocab.json").read_text()))
    expect(logits["logits"][:2], ("F32", [16, words]), "logits")
    refuses("cannot create", "eval", "--load", save, "--input", folder / "text.txt", "--logits",
            folder / "none" / "l")

    # A text is scored with the tokens that the tokenizer puts around it, as the model learnt it.
    hub, one = chat_tokenizer(folder), folder / "one.txt"
    one.write_text("The actor bows.\n")
    file = json.loads((hub / "tokenizer.json").read_text())
    turn = file["added_tokens"][1]
    text, begin = [{"Sequence": {"id": "A", "type_id": 0}}], {"SpecialToken": {"id": turn["content"], "type_id": 0}}
    file["post_processor"] = {
        "type": "TemplateProcessing", "single": [begin, *text],
        "pair": [*text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {turn["content"]: {"id": turn["content"], "ids": [turn["id"]], "tokens": [turn["content"]]}}}
    (hub / "tokenizer.json").write_text(json.dumps(file))
    prepare = ["preprocess", "--input", folder / "text.txt", "--output-prefix", folder / "f", "--tokenizer"]
    works(*prepare, hub, "--append-eod")
    works("train", "gpt", *SMALL, "--data-path", folder / "f_text_document", "--tokenizer", hub, "--split", "1,0,0",
          "--eval-iters", 0, "--save", folder / "framed")
    score = ["eval", "--json", "--load", folder / "framed", "--input", one]
    whole = json.loads(works(*score))["tokens"]
    bare = json.loads(works(*score, "--tokenizer-hf-no-include-special-tokens"))["tokens"]
    expect(whole - bare, 1, "tokens around a text")

    # A tokenizer.json alone needs an end of documents only where one is written.
    alone = folder / "alone"
    alone.mkdir()
    (alone / "tokenizer.json").write_text(json.dumps(file).replace("<|endoftext|>", "<a>").replace("<|im_end|>", "<b>"))
    works(*prepare, alone)
    works("tokenizer", "encode", "--tokenizer", alone, "--text", "x")
    refuses("the token that ends a document", *prepare, alone, "--append-eod")


def padded(save, hub):
    """Exports a model of 288 tokens, with 600 rows of the vocabulary, as Qwen 2.5 has more rows than tokens."""
    works("checkpoint", "export", save, "--hf", hub)
    config = json.loads((hub / "config.json").read_text())
    head, data = {}, b""
    for name, (kind, extents, raw) in tensors(hub / "model.safetensors").items():
        if extents[0] == config["vocab_size"]:
            raw = raw.ljust(len(raw) // extents[0] * 600, b"\0")
            extents[0] = 600
        head[name] = {"dtype": kind, "shape": extents, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    (hub / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (hub / "config.json").write_text(json.dumps({**config, "vocab_size": 600}))
    return hub


def check_generate(folder):
    save = trained(folder)
    more = ["--load", save, "--tokens", 12, "--temperature", 0.9]
    prompts = ["The actor", "", "waits.", "The stage is dark, and"]
    (folder / "p.txt").write_text("".join(x + "\n" for x in prompts))
    (folder / "p.jsonl").write_text("".join(json.dumps({"prompt": x}) + "\n" for x in prompts))
    lines = works("generate", "--prompts", folder / "p.txt", "--batch-size", 3, *more)
    found = [json.loads(x) for x in lines.splitlines()]
    expect([x["prompt"] for x in found], prompts, "prompts, in order")
    expect(works("generate", "--prompts", folder / "p.jsonl", "--batch-size", 3, *more), lines,
           "the same prompts as JSON")
    (folder / "ids.jsonl").write_text("".join(
        json.dumps({"id": i, "prompt": x, "text": "old", "of": {"b": [i], "a": None}}) + "\n\n" for i, x in enumerate(prompts)))
    named = [json.loads(x) for x in works("generate", "--prompts", folder / "ids.jsonl", "--batch-size", 3, *more).splitlines()]
    expect(named, [{"id": i, "of": {"b": [i], "a": None}, **x} for i, x in enumerate(found)], "other fields stay")
    expect(list(named[0]), ["id", "prompt", "of", "text", "tokens", "finish_reason"], "their order")
    expect(works("generate", "--prompts", "-", "--batch-size", 3, *more,
                 text="\n".join(prompts).encode()), lines, "the same prompts from standard input")
    expect(works("generate", "--prompt", prompts[0], *more), prompts[0] + found[0]["text"] + "\n",
           "the first prompt alone")
    whole = found[0]["text"]
    word = whole[4:6]
    cut = works("generate", "--prompt", prompts[0], *more, "--stop", word, "never seen")
    expect(cut, prompts[0] + whole[:whole.index(word)] + "\n", "up to the stop word")
    said = works("generate", "--interactive", *more, text=b"The actor\n:seed 7\n:nonsense\n\n:quit\nx\n")
    if not said.startswith(whole + "\n") or said.count("\n") < 2:
        raise wrong(f"an interactive session prints: {said!r}")
    if not works("generate", "--prompt", prompts[0], "--bf16", *more).startswith(prompts[0]):
        raise wrong("in bf16 the prompt is not continued")
    refuses("exclude each other", "generate", "--bf16", "--fp16", *more)
    refuses("exclude each other", "generate", "--interactive", "--prompt", "a", *more)
    refuses("or --greedy for the most probable token", "generate", *more, "--temperature", 0)
    if "For 0 use --greedy" not in " ".join(works("generate", "--help").split()):
        raise wrong("the help does not name --greedy for a temperature of 0")
    code, out, err = cli_test.run("generate", "--prompt", "word " * 500, *more)
    if code != 2 or out or "shorten it" not in err:
        raise wrong(f"a prompt that is too long: {code}, shown before: {out!r}\n{err}")
    far = folder / "far"
    works("train", "gpt", *SMALL, *MOCK, "--max-position-embeddings", 40, "--save", far)
    code, out, err = cli_test.run("generate", "--load", far, "--prompt", "1 2 3", "--tokens", 100, "--greedy")
    if code or "stopped after 40 tokens" not in err or "no more learned positions; its training samples had 16 tokens" not in err:
        raise wrong(f"generation does not use all learned positions: {code} {out!r}\n{err}")
    if not out.endswith("\n") or len(out.split()) != 41:  # the last token needs no position
        raise wrong(f"a text of 40 positions has {len(out.split())} tokens: {out!r}")
    wide = ["--load", padded(save, folder / "hub"), "--tokens", 15, "--temperature", 1000]  # all ids are as probable
    expect(works("generate", "--prompts", folder / "p.txt", *wide).count("\n"), len(prompts), "texts of a padded vocabulary")
    if not works("generate", "--prompt", prompts[0], *wide).startswith(prompts[0]):
        raise wrong("with a padded vocabulary the prompt is not continued")
    refuses("has no prompts", "generate", "--prompts", "-", *more, text=b"")
    refuses("No such file", "generate", "--prompts", folder / "none.txt", *more)
    (folder / "p.parquet").write_bytes(b"PAR1\x15\x04\0")
    refuses("it is Parquet", "generate", "--prompts", folder / "p.parquet", *more)


def check_beams(folder):
    """A beam search prints one text for each prompt, or several with their scores."""
    save = trained(folder)
    more = ["--load", save, "--tokens", 6, "--beam-size", 3]
    prompts = ["The actor", "waits."]
    (folder / "p.txt").write_text("".join(x + "\n" for x in prompts))
    lines = works("generate", "--prompts", folder / "p.txt", "--return-beams", 3, *more)
    found = [json.loads(x) for x in lines.splitlines()]
    for x in found:
        scores = [beam["score"] for beam in x["beams"]]
        expect(scores, sorted(scores, reverse=True), "the best text first")
        expect(len({beam["text"] for beam in x["beams"]}), 3, "distinct texts")
        expect({key: x[key] for key in ("text", "tokens", "finish_reason", "score")}, x["beams"][0], "the best text")
    expect(list(found[0]), ["prompt", "text", "tokens", "finish_reason", "score", "beams"], "the fields")
    best = prompts[0] + found[0]["text"] + "\n"
    expect(works("generate", "--prompt", prompts[0], *more), best, "the first prompt alone")
    expect(works("generate", "--prompt", prompts[0], "--no-cache", *more), best, "without a cache")
    expect(works("generate", "--interactive", *more, text=b":seed 3\nThe actor\n"), found[0]["text"] + "\n",
           "interactively, after a command that is refused")
    word = found[0]["text"][2:4]
    cut = json.loads(works("generate", "--prompts", folder / "p.txt", "--stop", word, *more).splitlines()[0])
    expect((cut["text"], cut["finish_reason"]), (found[0]["text"].split(word)[0], "stop"), "up to the stop word")
    for words in ["--greedy", "--temperature 0.5", "--top-k 4", "--top-p 0.5", "--seed 3"]:
        refuses("samples nothing: leave out", "generate", *more, *words.split())
    for words in ["--return-beams 2", "--length-penalty 2", "--early-stopping true"]:
        refuses("need a beam search: add --beam-size", "generate", "--load", save, *words.split())
    refuses("give --beam-size 4 or more", "generate", "--prompts", folder / "p.txt", "--return-beams", 4, *more)
    refuses("needs --prompts FILE", "generate", "--return-beams", 2, *more)
    refuses("exclude each other", "generate", "--prompt", "a", "--record-expert-choices", folder / "c", *more)


def check_choices(folder):
    """Texts are generated with their choices of experts, scored with them, and found by their tokens."""
    save, record, more = folder / "save", folder / "choices", ["--backend", "reference"]
    works("train", "gpt", *SMALL, *MOCK, *LLAMA, "--num-experts", 4, "--save", save)
    (folder / "p.txt").write_text("1 2 3\n4\n5 6\n")
    ask = ["generate", "--load", save, "--prompts", folder / "p.txt", "--tokens", 6, *more]
    lines = works(*ask, "--record-expert-choices", record)
    expect(works(*ask), lines, "a record changes no text")
    expect(sorted(x.suffix for x in record.iterdir()), [""] + [".choices"] * (len(list(record.iterdir())) - 1), "files")
    score = ["eval", "--load", save, "--json", *more]
    found = json.loads(works(*score, "--replay-expert-choices", record, "--record-expert-choices", folder / "again"))
    expect((found["documents"], len(found["text_nats"])), (3, 3), "scored texts")
    for name in sorted(x.name for x in record.glob("*.choices")):
        with open(record / name, "rb") as old, open(folder / "again" / name, "rb") as new:
            expect(old.read(16), new.read(16), f"header of {name}")
    again = json.loads(works(*score, "--replay-expert-choices", folder / "again"))
    expect(again["text_nats"], found["text_nats"], "scores with the choices of a score")
    page = works("eval", "--load", save, *more, "--replay-expert-choices", record)
    if "3 texts" not in page:
        raise wrong(f"the page of recorded texts: {page}")
    (folder / "other.txt").write_text("7 8 9 10 11 12\n")
    refuses("it has no text that this one", *score, "--input", folder / "other.txt", "--replay-expert-choices", record)
    refuses("of an earlier record", *ask, "--record-expert-choices", record)
    refuses("needs --prompt or --prompts", "generate", "--load", save, "--interactive", "--record-expert-choices",
            folder / "x")
    refuses("give --input", *score, "--replay-expert-choices", record, "--logits", folder / "l")
    refuses("has no texts", *score, "--replay-expert-choices", folder)
    works("train", "gpt", *SMALL, *MOCK, "--save", folder / "dense")
    refuses("no mixture-of-experts layers", "generate", "--load", folder / "dense", "--prompt", "1",
            "--record-expert-choices", folder / "x")


def check_converse(folder):
    save, tok = trained(folder, *LLAMA), folder / "tok"
    (folder / "own.jinja").write_text(
        "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}"
        "{% if add_generation_prompt %}{{ header or 'a:' }}{% endif %}")
    more = ["--load", save, "--tokens", 12, "--greedy"]
    chat = ["generate", "--chat", "--tokenizer", tok, "--template", folder / "own.jinja", *more]

    def continued(prompt, *stop):
        return works("generate", "--prompt", prompt, *more, "--stop", "|", *stop)[len(prompt):]

    first = "u:The actor|a:"
    answer = continued(first)
    second = first + answer[:-1] + "|u:waits|a:"
    expect(works(*chat, text=b"The actor\nwaits\n"), answer + continued(second), "two turns")
    talk = json.dumps([{"role": "user", "content": "The actor"}])
    (folder / "m.json").write_text('{"messages": ' + talk + "}")
    expect(works(*chat, "--messages", folder / "m.json"), answer, "a conversation of a file")
    nan = talk[:-2] + ', "score": NaN}]'
    expect(works(*chat, "--messages", "-", text=nan.encode()), answer, "one of standard input, with Python's NaN")
    expect(works(*chat, "--messages", folder / "m.json", "--set", "header=b:"),
           continued("u:The actor|b:"), "with a variable of the template")
    # Text that the template writes after an answer ends the answer.
    end = next(c for c in answer if c.isascii() and c.isprintable() and c != " ")
    (folder / "own.jinja").write_text((folder / "own.jinja").read_text().replace("|", end))
    expect(works(*chat, "--messages", folder / "m.json"), continued(f"u:The actor{end}a:", end),
           "up to the end of the turn")
    refuses("--tokenizer DIR", "generate", "--chat", *more)  # the run kept no template
    expect(works("generate", "--chat", "--template", folder / "own.jinja", *more, "--messages", folder / "m.json"),
           continued(f"u:The actor{end}a:", end), "with the kept tokenizer")
    refuses("no chat template", "generate", "--chat", "--tokenizer", tok, *more)
    refuses("need --chat: add it", "generate", "--messages", folder / "m.json", *more)
    refuses("exclude each other", *chat, "--interactive")
    refuses("is not a conversation", *chat, "--messages", "-", text=b"3")
    refuses("not JSON", *chat, "--messages", "-", text=b"{")


def chat_tokenizer(folder):
    """Makes and returns a folder with a tokenizer.json, an end-of-turn token and a chat template."""
    tok, hub = tokenizer(folder), folder / "hub"
    vocab = json.loads((tok / "vocab.json").read_text())
    merges = [x for x in (tok / "merges.txt").read_text().split("\n") if x and not x.startswith("#")]
    end, turn = vocab.pop("<|endoftext|>"), len(vocab) + 1
    hub.mkdir()
    special = {"special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
    (hub / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "normalizer": None, "post_processor": None, "truncation": None, "padding": None,
        "added_tokens": [{"id": end, "content": "<|endoftext|>", **special},
                         {"id": turn, "content": "<|im_end|>", **special}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}}))
    (hub / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
    (hub / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}a:{% endif %}")
    (hub / "additional_chat_templates").mkdir()
    (hub / "additional_chat_templates" / "shout.jinja").write_text(
        "{% for m in messages %}{{ m.content | upper }}!{% endfor %}")
    return hub


def check_tuned(folder):
    """A fine-tuned model answers up to the end-of-turn token, with the template that the run kept."""
    hub, save = chat_tokenizer(folder), folder / "save"
    talk = {"messages": [{"role": "user", "content": "Who bows?"}, {"role": "assistant", "content": "The actor."}]}
    (folder / "talks.jsonl").write_text((json.dumps(talk) + "\n") * 30)
    works("conversations", "--input", folder / "talks.jsonl", "--output-prefix", folder / "talks", "--tokenizer", hub)
    works("train", "gpt", *SMALL, *LLAMA, "--seq-length", 64, "--train-iters", 60, "--lr", 1e-2, "--sft", "--data-path",
          folder / "talks_conversations", "--tokenizer", hub, "--split", "1,0,0", "--save", save)
    kept = save / "tokenizer"
    for name in ["chat_template.jinja", "additional_chat_templates/shout.jinja"]:
        expect((kept / name).read_text(), (hub / name).read_text(), name)
    hub.rename(folder / "elsewhere")
    (folder / "m.json").write_text(json.dumps(talk["messages"][:1]))
    more = ["--load", save, "--greedy", "--tokens", 40]
    chat = ["generate", "--chat", "--messages", folder / "m.json", *more]
    expect(works(*chat), "The actor.\n", "the answer")
    newest = next(x for x in save.iterdir() if x.name.startswith("iter_"))
    expect(works("generate", "--chat", "--load", newest, "--greedy", "--messages", folder / "m.json"), "The actor.\n",
           "the answer of one checkpoint")
    # Only the special token ends a turn: if the template does not write it, generation continues.
    (folder / "endless.jinja").write_text("u:{{ messages[0].content }}<|im_end|>\na:")
    further = works(*chat, "--template", folder / "endless.jinja")
    if not further.startswith("The actor.") or further == "The actor.\n":
        raise wrong(f"without an end of turn the answer is {further!r}")
    expect(works("checkpoint", "export", save, "--hf", folder / "out").count("with its tokenizer"), 1, "export")
    expect((folder / "out" / "chat_template.jinja").read_text(), (kept / "chat_template.jinja").read_text(), "exported")


if __name__ == "__main__":
    sys.exit(cli_test.main(sys.argv[1], sys.argv[2:], globals()))
