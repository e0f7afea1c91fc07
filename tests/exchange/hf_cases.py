"""Loads folders that terrace wrote with Python's transformers, and writes folders with transformers.

hf_logits is run twice: in double precision by the GPT written in plain PyTorch for the tests of the models, which is the
truth, and in the tested type by transformers."""
import importlib.util
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
SPEC = importlib.util.spec_from_file_location("gpt_cases", pathlib.Path(__file__).parents[1] / "models/gpt_cases.py")
GPT_CASES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(GPT_CASES)


def hf_logits(inputs, options):
    kind = inputs["embedding.tokens.weight"].dtype
    if kind == torch.float64:
        return {"logits": GPT_CASES.gpt(inputs | {"targets": inputs["tokens"]}, options)["logits"]}
    model = transformers.AutoModelForCausalLM.from_pretrained(options["folder"], dtype=kind).eval()
    with torch.no_grad():
        return {"logits": model(inputs["tokens"]).logits}


def greedy_text(inputs, options):
    """The prompt and the tokens that transformers puts behind it with its cache, each the most probable one."""
    model = transformers.AutoModelForCausalLM.from_pretrained(options["folder"], dtype=torch.float32).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    text = model.generate(inputs["prompt"], max_new_tokens=options["tokens"], do_sample=False)
    return {"text": text[0]}


def save_model(inputs, options):
    """Makes a model of the given configuration and saves it, in several files if max_shard_size is given."""
    config = transformers.AutoConfig.for_model(**options["config"])
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, options.get("dtype", "float32")))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(options["folder"], max_shard_size=options.get("max_shard_size", "5GB"))
    files = len(list(pathlib.Path(options["folder"]).glob("*.safetensors")))
    return {"files": torch.tensor(files)}


def encode(inputs, options):
    """The ids that AutoTokenizer gives to each text, and whether the ids decode to the text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(options["folder"], use_fast=options["fast"])
    ids = [tokenizer.encode(text) for text in options["texts"]]
    same = [tokenizer.decode(row, clean_up_tokenization_spaces=False) == text for row, text in zip(ids, options["texts"])]
    flat = [len(ids)] + [number for row in ids for number in [len(row)] + row]
    return {"ids": torch.tensor(flat), "same": torch.tensor(same), "end": torch.tensor(tokenizer.eos_token_id or -1),
            "version": torch.tensor(int(transformers.__version__.split(".")[0]))}


def train_sentencepiece(inputs, options):
    """Trains a SentencePiece model on a text of its own and writes options["path"]; returns its number of pieces."""
    import io

    import sentencepiece

    lines = [f"the number {i} comes before  the number {i + 1}, it's said\tof \u00e9t\u00e9 and caf\u00e9" for i in range(2000)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **options["training"])
    pathlib.Path(options["path"]).write_bytes(model.getvalue())
    return {"pieces": torch.tensor(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size())}
