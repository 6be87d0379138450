"""Reads an exported GGUF file back, and compares every tensor with the checkpoint; where llama.cpp can be had, what it
predicts with what we predict.

    python3 tests/parity/gguf.py BINARY FOLDER

BINARY is export_dump (export_dump.cpp), FOLDER a place for checkpoints and exports; what an earlier check left there
goes. Needs nothing but Python; uses the packages gguf (its reader beside ours) and xllamacpp (llama.cpp) when they are
there, and says when they are not. Exit code 0: all well; 1: something differs.
"""

import array
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import urllib.request

# This file is called as the package is, which must be found all the same.
sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]
try:
    import gguf as gguf_package
except ImportError:
    gguf_package = None
try:
    import xllamacpp
except ImportError:
    xllamacpp = None

TOKENS = [256] + list("A caf\u00e9, \U0001f600!\n".encode()) + [0, 255, 192, 128, 127, 256, 33, 10]
LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 2, 4, 2, 12  # of export_dump's model
TOLERANCE = 1e-5  # norm of the difference of log-probabilities over the norm, against llama.cpp in fp32


class Checks:
    """Prints one line per check, and counts those that fail."""

    def __init__(self):
        self.failures = 0

    def __call__(self, what, holds, seen=""):
        if not holds:
            self.failures += 1
        print(f"{'ok    ' if holds else 'FAILED'} {what}{': ' if seen != '' else ''}{seen}")


def run(binary, *words):
    """What our program prints."""
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words[:2]))} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def floats(data):
    return array.array("f", data)


class SmallReader:
    """GGUF version 3, as far as our files go: keys -> values, names -> (sizes fastest first, floats)."""

    NUMBERS = {4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q"}

    def __init__(self, data):
        self.data, self.at = data, 0
        magic, version = self.take(4), self.number("<I")
        if (magic, version) != (b"GGUF", 3):
            raise ValueError(f"no GGUF of version 3: {magic} {version}")
        tensors, keys = self.number("<Q"), self.number("<Q")
        self.keys = {}
        for _ in range(keys):
            name = self.string()
            self.keys[name] = self.value(self.number("<I"))
        places = {}
        for _ in range(tensors):
            name = self.string()
            sizes = [self.number("<Q") for _ in range(self.number("<I"))]
            places[name] = (sizes, self.number("<I"), self.number("<Q"))
        begin = (self.at + 31) // 32 * 32
        self.tensors = {}
        for name, (sizes, kind, offset) in places.items():
            if kind != 0 or offset % 32:
                raise ValueError(f"{name} is of type {kind} at {offset}")
            size = 4 * math.prod(sizes)
            self.tensors[name] = (sizes, floats(data[begin + offset:begin + offset + size]))

    def take(self, size):
        if self.at + size > len(self.data):
            raise ValueError("the file ends early")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self):
        return self.take(self.number("<Q")).decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            inner = self.number("<I")
            return [self.value(inner) for _ in range(self.number("<Q"))]
        return self.number(self.NUMBERS[kind])


def read_safetensors(path):
    """name -> (shape, floats)."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], floats(data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]))
            for name, entry in header.items()}


def names(layers, tied):
    """Ours -> (theirs, heads whose rows are turned)."""
    pairs = {"model.embed_tokens.weight": ("token_embd.weight", 0), "model.norm.weight": ("output_norm.weight", 0)}
    if not tied:
        pairs["lm_head.weight"] = ("output.weight", 0)
    parts = {"input_layernorm": ("attn_norm", 0), "self_attn.q_proj": ("attn_q", HEADS),
             "self_attn.k_proj": ("attn_k", KV_HEADS), "self_attn.v_proj": ("attn_v", 0),
             "self_attn.o_proj": ("attn_output", 0), "post_attention_layernorm": ("ffn_norm", 0),
             "mlp.gate_proj": ("ffn_gate", 0), "mlp.up_proj": ("ffn_up", 0), "mlp.down_proj": ("ffn_down", 0)}
    for layer in range(layers):
        for ours, (theirs, heads) in parts.items():
            pairs[f"model.layers.{layer}.{ours}.weight"] = (f"blk.{layer}.{theirs}.weight", heads)
    return pairs


def in_halves(values, heads, columns):
    """Rows of q or k from the interleaved order back: the even ones of each head first, then the odd ones."""
    if heads == 0:
        return values
    head_size = len(values) // columns // heads
    rows = [head * head_size + row for head in range(heads)
            for row in [*range(0, head_size, 2), *range(1, head_size, 2)]]
    return array.array("f", [x for row in rows for x in values[row * columns:(row + 1) * columns]])


def check_tensors(check, who, read, expected, tied):
    pairs = names(LAYERS, tied)
    check(f"{who}: the tensors are those of the model", sorted(read) == sorted(theirs for theirs, _ in pairs.values())
          and sorted(pairs) == sorted(expected), f"{len(read)} tensors")
    wrong = []
    for ours, (theirs, heads) in pairs.items():
        (shape, values), (sizes, stored) = expected[ours], read[theirs]
        if list(sizes) != shape[::-1] or in_halves(stored, heads, shape[-1]).tobytes() != values.tobytes():
            wrong.append(theirs)
        if heads and stored.tobytes() == values.tobytes():
            wrong.append(f"{theirs} (rows not turned)")
    check(f"{who}: every tensor holds the checkpoint's bits", not wrong, wrong)


def check_keys(check, keys, config):
    expected = {
        "general.architecture": "llama", "general.alignment": 32, "llama.vocab_size": config["vocab_size"],
        "llama.context_length": config["max_position_embeddings"], "llama.embedding_length": config["hidden_size"],
        "llama.block_count": config["num_hidden_layers"], "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.rope.dimension_count": config["head_dim"], "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 256, "tokenizer.ggml.eos_token_id": 256, "tokenizer.ggml.add_bos_token": 0,
        "tokenizer.ggml.add_space_prefix": 0}
    wrong = [key for key, value in expected.items() if keys.get(key) != value]
    for key, value in (("llama.attention.layer_norm_rms_epsilon", config["rms_norm_eps"]),
                       ("llama.rope.freq_base", config["rope_theta"])):
        if not math.isclose(keys.get(key, 0), value, rel_tol=1e-7):
            wrong.append(key)
    check("the keys say what config.json says", not wrong, wrong)
    check("every byte has a token", len(set(keys["tokenizer.ggml.tokens"])) == config["vocab_size"] == 257)
    check("the separator alone is a control token", keys["tokenizer.ggml.token_type"] == [1] * 256 + [3])


def check_with_package(check, path, expected, tied):
    if gguf_package is None:
        print("SKIPPED: the package gguf is not there; only our own small reader looks at the file")
        return
    reader = gguf_package.GGUFReader(path)
    read = {t.name: ([int(s) for s in t.shape], floats(t.data.tobytes())) for t in reader.tensors}
    check_tensors(check, "gguf package", read, expected, tied)


class LlamaCpp:
    """llama.cpp's server inside this process, with everything in fp32."""

    def __init__(self, path):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.warmup, params.verbosity, params.cpuparams.n_threads = False, -1, 1
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server = xllamacpp.Server(params)

    def post(self, path, body):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def tokens(self, text):
        return self.post("/tokenize", {"content": text, "parse_special": True})["tokens"]

    def next_log_probabilities(self, tokens):
        """By token. The bias makes the token that follows printable, without which there is no answer; the
        log-probabilities are those before it."""
        answer = self.post("/completion", {"prompt": tokens, "n_predict": 1, "n_probs": 257, "temperature": 0,
                                           "logit_bias": [[65, 1000.0]], "cache_prompt": False})
        top = answer["completion_probabilities"][0]["top_logprobs"]
        return [entry["logprob"] for entry in sorted(top, key=lambda entry: entry["id"])]


def check_with_llama_cpp(check, binary, checkpoint, path):
    if xllamacpp is None:
        print("SKIPPED: the package xllamacpp is not there; llama.cpp does not predict from the file")
        return
    llama_cpp = LlamaCpp(path)
    ours = json.loads(run(binary, "predict", checkpoint, *TOKENS))
    for count in (1, 2, 9, len(TOKENS)):
        theirs, expected = llama_cpp.next_log_probabilities(TOKENS[:count]), ours[count - 1]
        away = math.dist(theirs, expected) / math.hypot(*expected) if len(theirs) == len(expected) else math.inf
        check(f"llama.cpp predicts what we predict after {count} tokens", away <= TOLERANCE, f"{away:.2e}")
    text = " A caf\u00e9, \U0001f600!\n\n  \tx0"
    check("llama.cpp's tokens of a text are its bytes", llama_cpp.tokens(text) == list(text.encode()))
    check("llama.cpp knows the separator", llama_cpp.tokens("<|endoftext|>a") == [256, 97])


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    check = Checks()
    for tied in (False, True):
        print("tied embeddings" if tied else "untied embeddings")
        place = folder / f"gguf-{'tied' if tied else 'untied'}"
        shutil.rmtree(place, ignore_errors=True)
        checkpoint = pathlib.Path(run(binary, "make", place / "checkpoints", *(["tied"] if tied else [])))
        path = place / "model.gguf"
        run(binary, "gguf", checkpoint, path)
        expected = read_safetensors(checkpoint / "model.safetensors")
        file = SmallReader(path.read_bytes())
        check_tensors(check, "small reader", file.tensors, expected, tied)
        check_keys(check, file.keys, json.loads((checkpoint / "config.json").read_text()))
        check_with_package(check, path, expected, tied)
        check_with_llama_cpp(check, binary, checkpoint, path)
    print("all well" if check.failures == 0 else f"{check.failures} checks failed")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
