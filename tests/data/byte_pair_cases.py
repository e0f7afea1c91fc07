"""Trains byte-level BPEs with the tokenizers package and writes, into the given folder, their tokenizer.json, texts of every
kind, and the ids that the package gives them: in NAME.ids, and in NAME.split.ids with special tokens split. With more
arguments it writes the ids of these tokenizers alone.

Usage: byte_pair_cases.py FOLDER SOURCE_TREE [FILE.json...]
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
# Tokenizers whose ids with special tokens split are written too.
SPLIT = ["gpt2", "neox", "roberta", "composed"]
# Bytes that no text of UTF-8 has.
NEVER = [0xc0, 0xc1, *range(0xf5, 0x100)]

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
    return {**more_kinds(corpus), "gpt2": gpt2, "llama3": llama3, "qwen2": train(corpus, byte_level(QWEN2), 1500), "prefixed": prefixed,
            "digits": digits, "composed": composed}


def sequence(*parts, regex=False, prefix=False, after=()):
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex), *after])


def more_kinds(corpus):
    """Tokenizers whose parts are put together as those of GPT-NeoX, OLMo 2, DeepSeek, Falcon and RoBERTa, and what else can be."""
    split = lambda pattern, behavior, invert=False: pre_tokenizers.Split(pattern, behavior, invert=invert)
    neox = train(corpus, byte_level(), 1500)
    neox.normalizer = normalizers.NFC()
    neox.add_special_tokens(["<|padding|>"])
    neox.add_tokens([AddedToken(" " * count) for count in range(24, 1, -1)])
    file = json.loads(neox.to_str())
    missing = [chr(byte) for byte in NEVER]  # these bytes stand for themselves in the alphabet
    file["model"]["vocab"] = {piece: id for piece, id in file["model"]["vocab"].items() if piece not in missing}
    neox = Tokenizer.from_str(json.dumps(file))
    dolma2 = train(corpus, sequence(split(Regex(LLAMA3), "removed", True)), 1500)
    deepseek = train(corpus, sequence(split(Regex("[\r\n]"), "isolated"), split(Regex(r"\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6]+"), "isolated"),
                                      split(Regex(r"\s?[!-/:-~\uff01-\uff0f\u3000-\u3002]+"), "isolated"), split(Regex(r"\s+$"), "isolated"),
                                      split(Regex("[\u4e00-\u9fa5]+"), "isolated"), pre_tokenizers.Digits(individual_digits=True)), 1500)
    deepseek.normalizer = normalizers.Sequence([])
    deepseek.add_special_tokens(["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"])
    falcon = train(corpus, sequence(pre_tokenizers.Punctuation("contiguous"), regex=True,
                                    after=(pre_tokenizers.Digits(individual_digits=False), split(Regex("[0-9][0-9][0-9]"), "isolated"))), 1500)
    roberta = train(corpus, byte_level(prefix=True), 1500)
    roberta.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<sep>", rstrip=True), AddedToken("foo", single_word=True)])
    roberta.add_tokens([AddedToken("both", lstrip=True, rstrip=True), AddedToken("bar", single_word=True, normalized=False)])
    merged = train(corpus, sequence(split(" ", "merged_with_next"), split("\n", "merged_with_previous"), split(Regex("[0-9]"), "contiguous", True),
                                    pre_tokenizers.Punctuation("merged_with_previous"), regex=True, prefix=True), 1500)
    words = train(corpus, sequence(pre_tokenizers.Whitespace()), 1500)
    lines = train(corpus, sequence(pre_tokenizers.CharDelimiterSplit("a"), pre_tokenizers.WhitespaceSplit()), 1500)
    bert = train(corpus, pre_tokenizers.Sequence([sequence(pre_tokenizers.BertPreTokenizer())]), 1500)
    lines_of_text = train(corpus, sequence(split(Regex(r"^\s*\w+|\h{2}|[\w\u00e9]+$|[^\W\d]|[]x[:digit:]]"), "isolated")), 1500)
    return {"neox": neox, "dolma2": dolma2, "deepseek": deepseek, "falcon": falcon, "roberta": roberta, "merged": merged, "words": words,
            "lines": lines, "bert": bert, "lines_of_text": lines_of_text}


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
             "foo_", "bar", "\u0301", "_", "<|eot id|>", "\n  c", "foo", "<mask>", "<sep>", "both", "<\uff5cend\u2581of\u2581sentence\uff5c>", "ab", "0f"]
    return ["".join(draw.choice(parts) for _ in range(draw.randrange(60))) for _ in range(count)]


def texts_of(source):
    files = sorted(source.glob("docs/*.md")) + sorted(source.glob("terrace/data/*.cpp")) + sorted(source.glob("tools/*"))
    files = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return files, ODD + random_texts(400) + list(compositions(old_characters())) + files + list(characters_of_every_kind())


def ids_of(tokenizer, texts):
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def write_ids(folder, name, tokenizer, texts):
    (folder / f"{name}.ids").write_text(json.dumps(ids_of(tokenizer, texts)))
    if name not in SPLIT:
        return
    tokenizer.encode_special_tokens = True
    (folder / f"{name}.split.ids").write_text(json.dumps(ids_of(tokenizer, texts)))
    tokenizer.encode_special_tokens = False


def main():
    folder, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files, texts = texts_of(source)
    (folder / "texts.json").write_text(json.dumps(texts))
    for file in sys.argv[3:]:
        write_ids(folder, pathlib.Path(file).stem, Tokenizer.from_file(str(folder / file)), texts)
    if len(sys.argv) > 3:
        return
    pairs = [(text, unicodedata.normalize("NFC", text)) for text in
             [*compositions(all_characters()), "a" + "\u0301\u0316" * 20000 + "\u0300"]]
    (folder / "normal_form_c.json").write_text(json.dumps(pairs))
    for name, tokenizer in trained(files + ODD).items():
        tokenizer.save(str(folder / f"{name}.json"))
        write_ids(folder, name, tokenizer, texts)
        if name == "gpt2":
            tokenizer.model.save(str(folder))


if __name__ == "__main__":
    main()
