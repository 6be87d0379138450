"""Loads an exported model in transformers, and compares what it predicts with what we predict.

    python3 tests/parity/export.py BINARY FOLDER

BINARY is export_dump (export_dump.cpp), FOLDER a place for checkpoints and exports; what an earlier check left there
goes. Exit code 0: all well; 1: something differs; 77: skipped, because transformers, torch or numpy is not there.
"""

import json
import pathlib
import shutil
import subprocess
import sys

TOLERANCE = 1e-5  # norm of the difference over the norm
SEPARATOR = 256
SEPARATOR_TEXT = "<|endoftext|>"
TOKENS = [SEPARATOR] + list("A caf\u00e9, \U0001f600!\n".encode()) + [0, 255, 192, 128, 127, SEPARATOR, 33, 10]

try:
    import numpy
    import torch
    import transformers
except ImportError as missing:
    print(f"SKIPPED: {missing}; install python3-torch and, with pip, transformers==4.40.2")
    sys.exit(77)


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


def distance(seen, expected):
    return float(numpy.linalg.norm(seen - expected) / numpy.linalg.norm(expected))


def log_probabilities(model):
    """[position][token], in double."""
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS])).logits[0].double()
    return torch.log_softmax(logits, -1).numpy()


def use_rotary_base(model, base):
    """As if the reader had taken another rotary base than the one in config.json."""
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            size = 2 * module.inv_freq.numel()
            powers = torch.arange(0, size, 2, dtype=torch.float32) / size
            module.inv_freq = 1.0 / torch.tensor(base) ** powers


def check_model(check, binary, checkpoint, folder, tied):
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    check("every tensor is found, none is alien", not any(loading.values()), loading)
    check("parameters are fp32", {p.dtype for p in model.parameters()} == {torch.float32})
    config = json.loads((folder / "config.json").read_text())
    check("the numbers of the config arrive", all(getattr(model.config, key) == config[key] for key in (
        "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta", "tie_word_embeddings",
        "bos_token_id", "eos_token_id")))
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    check("embeddings are tied as said", (table.data_ptr() == head.data_ptr()) == tied)

    ours = numpy.array(json.loads(run(binary, "predict", checkpoint, *TOKENS)))
    model.eval().double()
    theirs = log_probabilities(model)
    away = distance(ours, theirs)
    check(f"log-probabilities of {ours.shape[0]} positions agree", away <= TOLERANCE, f"{away:.2e}")
    targets = numpy.array(TOKENS[1:])
    our_loss, their_loss = (-p[numpy.arange(len(targets)), targets].mean() for p in (ours, theirs))
    check("losses agree", abs(our_loss - their_loss) <= TOLERANCE * their_loss, f"{our_loss:.6f} {their_loss:.6f}")

    use_rotary_base(model, 10000.0)
    wrong = distance(log_probabilities(model), theirs)
    check("a wrong rotary base would be noticed", wrong > 10 * TOLERANCE, f"{wrong:.2e}")


def check_generation(check, folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    made = model.generate(torch.tensor([TOKENS[:4]]), max_new_tokens=5, do_sample=False)[0].tolist()
    check("it generates", made[:4] == TOKENS[:4] and 4 < len(made) <= 9, made[4:])
    check("padding and ends are known", model.generation_config.eos_token_id == SEPARATOR
          and model.generation_config.pad_token_id == SEPARATOR)


def check_newer_keys(check, folder):
    """A reader of version 5 looks at rope_parameters and dtype alone."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters", {})
    check("version 5 finds its keys", rope == {"rope_theta": config["rope_theta"], "rope_type": "default"}
          and config.get("dtype") == config["torch_dtype"] == "float32")


def check_tokenizer(check, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 1 << 20  # a long text is meant here
    alphabet = tokenizer.convert_ids_to_tokens(list(range(256)))
    check("all 256 bytes have a token of their own, and come back",
          len(set(alphabet)) == 256 and tokenizer.convert_tokens_to_ids(alphabet) == list(range(256)))
    check("tokens stand for the bytes that the rest of the world means",
          [alphabet[b] for b in (0, 10, 32, 65, 161, 173, 255)] == list("\u0100\u010a\u0120A\u00a1\u0143\u00ff"))
    # Every code point below U+0800, and some of each longer form: all bytes that UTF-8 ever uses.
    codes = [*range(0x800), *range(0x800, 0xd800, 37), *range(0xe000, 0x110000, 4099)]
    text = "".join(map(chr, codes))
    ids = tokenizer(text)["input_ids"]
    check("text becomes its bytes, nothing before or after", ids == list(text.encode()), f"{len(set(ids))} bytes seen")
    check("bytes become the text", tokenizer.decode(ids) == text)
    check("the separator is one token", tokenizer("a" + SEPARATOR_TEXT + "b")["input_ids"] == [97, SEPARATOR, 98])
    check("the separator begins and ends", tokenizer.bos_token_id == tokenizer.eos_token_id == SEPARATOR)
    check("the separator can be left out", tokenizer.decode([97, SEPARATOR, 98], skip_special_tokens=True) == "ab")


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    check = Checks()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for tied in (False, True):
        print("tied embeddings" if tied else "untied embeddings")
        place = folder / f"export-{'tied' if tied else 'untied'}"
        shutil.rmtree(place, ignore_errors=True)
        checkpoint = run(binary, "make", place / "checkpoints", *(["tied"] if tied else []))
        run(binary, "hugging-face", checkpoint, place / "hugging-face")
        exported = place / "hugging-face"
        check_model(check, binary, checkpoint, exported, tied)
        check_generation(check, exported)
        check_newer_keys(check, exported)
        check_tokenizer(check, exported)
    print("all well" if check.failures == 0 else f"{check.failures} checks failed")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
