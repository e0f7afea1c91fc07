"""Trains byte-level BPEs with the tokenizers package and writes, into the given folder, their tokenizer.json, texts of every
kind, and the ids that the package gives them. With a second argument NAME.json it writes the ids of that tokenizer alone.

Usage: byte_pair_cases.py FOLDER SOURCE_TREE [NAME.json]
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

ODD = ["", " ", "  ", "\n", "\n\n\n", "a", " a", "a ", "tabs\t\tand\r\nreturns\r\r\n", "  two  spaces  ", "a\0b\0",
       "I'm sure they'll've DON'T they'D 'S'll o'clock 'tis ''s’s 'ſ", "1 12 123 1234 12345 3.14159 1,000,000 ½ ²³ Ⅷ ٣٤٥ 五",
       "東京は日本の首都です。人口は約1400万人。", "한국어 텍스트와 中文混合 text", "😀👩‍👩‍👧‍👦🇩🇪 ❤️‍🔥 end", "Ελλάδα naïve café Straße ǅ ŉ ﬁ ﬆ",
       "e\u0301 o\u0308 \u200b\u200d\ufeff\u00ad", "x\u00a0y\u2003z\u3000w\u180ev\u0085u\u2028t\u2029", " \u00a0 \u2003a \u3000\n b",
       "<|endoftext|>", "a<|endoftext|>b <|endoftext|> c", "<|endoftext|><|endoftext|>", "<|end", "<|endoftext|", "<<|endoftext|>>",
       "call foo_bar() now foo_barfoo_bar", "if (x[i] != y->z) { return a+=b; } // done\n\n\n\treturn;\n", "\x01\x02 \x7f\x1b[0m",
       "a\n b\n\n  c\n   \n", " \n \n", "!!!???...\n\n  ---", "العربية עברית हिन्दी ไทย བོད", "w" * 3000, " " * 3000 + "x", "ab" * 999]


def byte_level(pattern=None, prefix=False):
    if pattern is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated", invert=False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(corpus, pre_tokenizer, vocabulary, ignore_merges=False, end="<|endoftext|>"):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[end], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def trained(corpus):
    gpt2 = train(corpus, byte_level(), 4000)
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    llama3 = train(corpus, byte_level(LLAMA3), 3000, ignore_merges=True)
    llama3.add_special_tokens(["<|end_of_text|>", "<|eot id|>"])
    llama3.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    prefixed = train(corpus, byte_level(prefix=True), 1000)
    prefixed.add_tokens([AddedToken("foo_bar"), AddedToken("foo_", normalized=False), AddedToken("\n  c")])
    digits = train(corpus, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                    pre_tokenizers.ByteLevel(add_prefix_space=False)]), 1000)
    composed = train(corpus, byte_level(QWEN2), 1500)  # as Qwen 2 and 3 are
    composed.normalizer = normalizers.NFC()
    composed.add_tokens([AddedToken("<|caf\u00e9|>"), AddedToken("<|cafe\u0301s|>"), AddedToken("<|o\u0308|>", normalized=False)])
    return {"gpt2": gpt2, "llama3": llama3, "qwen2": train(corpus, byte_level(QWEN2), 1500), "prefixed": prefixed,
            "digits": digits, "composed": composed}


def characters_of_every_kind():
    """Each run of code points of one category by its ends and every 64th between, a few hundred characters a text; what
    Unicode 14 does not assign may be of another kind in the two libraries."""
    kinds = [unicodedata.category(chr(code)) for code in range(0x110000)] + [""]
    shown = [chr(code) for code in range(1, 0x110000) if kinds[code] not in ("Cn", "Cs", "Co") and
             (code % 64 == 0 or kinds[code - 1] != kinds[code] or kinds[code + 1] != kinds[code])]
    for at in range(0, len(shown), 500):
        yield "".join(f"a{here}b {here}1{here}{here}. {here}\n{here}" for here in shown[at:at + 500])


def old_characters():
    """Those of Unicode 3.2 whose class of marks is the same today: the package's normal forms are of a Unicode before 13."""
    old = unicodedata.ucd_3_2_0
    return [code for code in range(0x110000) if old.category(chr(code)) not in ("Cn", "Cs", "Co") and
            old.combining(chr(code)) == unicodedata.combining(chr(code))]


def all_characters():
    return [code for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]


def compositions(codes):
    """What normal form C changes: each character that decomposes, as it is, decomposed, and with a mark; syllables of Hangul by
    their letters; marks in any order."""
    draw = random.Random(6)
    # Every 40th syllable of Hangul stands for its 11172.
    changing = [c for c in map(chr, codes) if unicodedata.normalize("NFD", c) != c and (not "가" <= c <= "힣" or ord(c) % 40 == 0)]
    marks = [chr(code) for code in codes if unicodedata.combining(chr(code)) > 0]
    compatible = [c for c in map(chr, codes) if unicodedata.decomposition(c).startswith("<")]
    for at in range(0, len(changing), 100):
        yield " ".join(f"{c}{unicodedata.normalize('NFD', c)}\u0323 x{unicodedata.normalize('NFD', c)}y{c}\u0301\u0316" for c in changing[at:at + 100])
    letters = [chr(code) for code in (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11a7, 0x11c3), 0xac00, 0xac01, 0xd7a3)]
    for alphabet in (marks + list("aeo\u0915 <") + changing[:40], letters + ["a", "\u0301"], compatible, ["a", "\u0301", "\u0316", "\u0345"],
                     ["<|caf", "e\u0301", "\u00e9", "|>", "s|>", "<|o\u0308|>", "<|\u00f6|>"]):
        for _ in range(60):
            yield "".join(draw.choice(alphabet) for _ in range(draw.randrange(80)))


def random_texts(count):
    draw = random.Random(4)
    parts = [" ", "  ", "\n", "\t", "\r\n", "'s", "'LL", "12", "7", "the", " sea", "É", "東", "😀", "\u00a0", "<|endoftext|>", ".", "!?",
             "foo_", "bar", "\u0301", "_", "<|eot id|>", "\n  c"]
    return ["".join(draw.choice(parts) for _ in range(draw.randrange(60))) for _ in range(count)]


def texts_of(source):
    files = sorted(source.glob("docs/*.md")) + sorted(source.glob("terrace/data/*.cpp")) + sorted(source.glob("tools/*"))
    files = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return files, ODD + random_texts(400) + list(compositions(old_characters())) + files + list(characters_of_every_kind())


def ids_of(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def main():
    folder, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files, texts = texts_of(source)
    if len(sys.argv) > 3:
        ids = ids_of(Tokenizer.from_file(str(folder / sys.argv[3])), texts)
        (folder / "again.ids").write_text(json.dumps(ids))
        return
    (folder / "texts.json").write_text(json.dumps(texts))
    pairs = [(text, unicodedata.normalize("NFC", text)) for text in
             [*compositions(all_characters()), "a" + "\u0301\u0316" * 20000 + "\u0300"]]
    (folder / "normal_form_c.json").write_text(json.dumps(pairs))
    for name, tokenizer in trained(files + ODD).items():
        tokenizer.save(str(folder / f"{name}.json"))
        (folder / f"{name}.ids").write_text(json.dumps(ids_of(tokenizer, texts)))
        if name == "gpt2":
            tokenizer.model.save(str(folder))


if __name__ == "__main__":
    main()
