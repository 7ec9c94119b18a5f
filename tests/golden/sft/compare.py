"""Compares fine-tuning with transformers and PyTorch: ids and answers of conversations, and loss and
gradient norm of a first step. Run it by hand; it needs torch, transformers and numpy.

    compare.py PROGRAM
"""

import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

S, SEED, MICRO, GLOBAL = 64, 1234, 2, 8
PLAIN = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MARKED = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' %}"
          "{% generation %}{{ m['content'] + '<|im_end|>\n' }}{% endgeneration %}{% else %}"
          "{{ m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def conversations():
    words = "the cat sat on a mat and saw two birds over seven hills while rain fell softly ; Ünïcode".split()
    random.seed(3)

    def text(most):
        return " ".join(random.choice(words) for _ in range(random.randint(1, most)))

    out = []
    for i in range(60):
        out.append([{"role": "system", "content": text(5)}] if i % 3 == 0 else [])
        for _ in range(random.randint(1, 3)):
            out[-1] += [{"role": "user", "content": text(9)}, {"role": "assistant", "content": text(12)}]
    return out


def tokenizer(talks):
    out = Tokenizer(models.BPE())
    out.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    out.decoder = decoders.ByteLevel()
    out.train_from_iterator([m["content"] for talk in talks for m in talk] * 3, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    return PreTrainedTokenizerFast(tokenizer_object=out, eos_token="<|endoftext|>")


def sequences(prefix):
    index = pathlib.Path(f"{prefix}.idx").read_bytes()
    count, = struct.unpack_from("<Q", index, 18)
    lengths = numpy.frombuffer(index, "<i4", count, 34)
    values = numpy.fromfile(f"{prefix}.bin", {8: "<u2", 4: "<i4"}[index[17]])
    return numpy.split(values, numpy.cumsum(lengths)[:-1])


def differing(expected, prefix):
    out = 0
    for (ids, mask), found, ends in zip(expected, sequences(prefix), sequences(f"{prefix}_answers")):
        answers = [0] * len(found)
        for begin, end in ends.reshape(-1, 2):
            answers[begin:end] = [1] * (end - begin)
        out += list(found) != ids or answers != mask
    return out


def first_step(model, expected):
    """Computes each conversation in its own row; packing must give the same result."""
    order = numpy.arange(len(expected))
    numpy.random.RandomState(SEED).shuffle(order)
    samples, filled = [[]], 0
    for k in order:
        length = min(len(expected[k][0]), S)
        if filled + length > S:
            samples.append([])
            filled = 0
        samples[-1].append(k)
        filled += length
    total, tokens, loss = 0, 0, 0
    for first in range(0, GLOBAL, MICRO):
        sums, counts = 0, 0
        for k in sum(samples[first:first + MICRO], []):
            ids = torch.tensor(expected[k][0][:S])
            mask = torch.tensor(expected[k][1][:S])[1:].float()
            logits = model(ids[None]).logits[0, :-1]
            sums += (torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none") * mask).sum()
            counts += mask.sum().item()
        loss = loss + sums / counts * MICRO / GLOBAL
        total, tokens = total + sums.item(), tokens + counts
    loss.backward()
    return total / tokens, float(sum((p.grad ** 2).sum() for p in model.parameters()) ** .5)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    at = pathlib.Path(tempfile.mkdtemp())
    talks = conversations()
    text = tokenizer(talks)
    (at / "talks.jsonl").write_text("".join(json.dumps({"messages": m}) + "\n" for m in talks))
    expected = []
    for talk in talks:
        made = text.apply_chat_template(talk, chat_template=MARKED, tokenize=True, return_dict=True,
                                        return_assistant_tokens_mask=True)
        expected.append([made["input_ids"], made["assistant_masks"]])
    for name, template in (("plain", PLAIN), ("marked", MARKED)):
        text.chat_template = template
        text.save_pretrained(at / name)
        subprocess.run([program, "conversations", "--input", at / "talks.jsonl", "--output-prefix",
                        at / name / "d", "--tokenizer", at / name], check=True)
        print(f"{name}: of {len(talks)} conversations {differing(expected, at / name / 'd_conversations')} differ")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(text), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=S,
        initializer_range=0.2, tie_word_embeddings=False))
    model.save_pretrained(at / "hf")
    text.save_pretrained(at / "hf")
    print("PyTorch: loss %.6f, gradient norm %.6f" % first_step(model, expected))
    for layout in ([], ["--tensor-model-parallel-size", "2", "--world-size", "2"],
                   ["--pipeline-model-parallel-size", "2", "--world-size", "2"]):
        subprocess.run([program, "train", "gpt", "--load-hf", at / "hf", "--seq-length", str(S), "--sft",
                        "--data-path", at / "marked" / "d_conversations", "--split", "100,0,0",
                        "--tokenizer", at / "hf", "--micro-batch-size", str(MICRO),
                        "--global-batch-size", str(GLOBAL), "--train-iters", "1", "--lr", "1e-3",
                        "--seed", str(SEED), "--eval-iters", "0", "--log-file", at / "log.jsonl",
                        "--quiet", *layout], check=True)
        step = [x for x in map(json.loads, open(at / "log.jsonl")) if "lm_loss" in x][0]
        print("troupe %s: loss %.6f, gradient norm %.6f"
              % (" ".join(layout), step["lm_loss"], step["grad_norm"]))


main()
