"""Trains SentencePiece models of every kind, and writes into the given folder each MODEL.model, texts of every kind, and MODEL.ids,
the ids that the package sentencepiece gives them. With more arguments it writes the ids of these models instead.

Usage: sentencepiece_cases.py FOLDER SOURCE_TREE [FILE.model...]
"""
import json
import pathlib
import random
import sys

import sentencepiece

MARK = "\u2581"
CONTROLS = [chr(code) for code in range(1, 32)]
ODD = ["", " ", "  ", "   ", "\n", "\n\n\n", "a", " a", "a ", "  a  b  ", "tabs\t\tand\r\nreturns\r\r\n", "a\0b\0", MARK, MARK * 3,
       f"x{MARK}y {MARK} {MARK}{MARK} z{MARK}", f"{MARK} a", f" {MARK}", f"a {MARK} ", "</s> <s> <unk> <pad> <0x41> a</s>b", "<user>a<user> <user>",
       "a<us", "\u2585 \ufffd \ufeff", "\u2047", "\x01\x02 \x7f\x1b[0m\x08", "a\n b\n\n  c\n   \n", " \n \n", "\u3000wide\u3000\u00a0space\u2003\u200b ",
       "e\u0301 o\u0308 \u00e9\u0323 \u1100\u1161\u11a8 \uff21\uff22 \ufb01 \u2460 \u00bd \u2122", " \u0301a \u00b4 \u0338", "\u00ad\u200d\ufeff",
       "東京は日本の首都です。人口は約1400万人。", "한국어 텍스트와 中文混合 text", "😀👩‍👩‍👧‍👦🇩🇪 ❤️‍🔥 end", "Ελλάδα naïve café Straße ǅ ŉ ﬁ ﬆ", "العربية עברית हिन्दी ไทย བོད",
       "𝒜𝔅𐍈𐍉 \U000e0001\U0010ffff", "------- ======= ....... 000000 aaaaaaa", "if (x[i] != y->z) { return a+=b; } // done\n\n\n\treturn;\n",
       "w" * 3000, " " * 3000 + "x", "ab" * 999, "东" * 500 + " " + "京" * 3, "\n" * 700, ("word " * 40 + "\n") * 30]


def random_texts(count):
    draw = random.Random(7)
    parts = [" ", "  ", "    ", "\n", "\n\n", "\t", "\r\n", "the", " sea", "É", "東", "京都", "😀", "\u00a0", "\u3000", MARK, "<user>", "</s>", ".", "!?", "--", "000", "aa",
             "a", "\u0301", "_", "\x01", "\x07", "é", "ß", "ﬁ", "Ⅷ", "\u200b", "한", "ᄒ", "ᅡ", "Hello", "world", "x" * 9, "\ufffd", "\U0001f1e9"]
    return ["".join(draw.choice(parts) for _ in range(draw.randrange(80))) for _ in range(count)]


def texts_of(source):
    files = sorted(source.glob("docs/*.md")) + sorted(source.glob("terrace/data/*.cpp")) + sorted(source.glob("tools/*"))
    files = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    return files, ODD + random_texts(500) + [text[:9000] for text in files]


def kinds():
    """Settings of models by name. All see blanks, controls and characters outside of ASCII."""
    plain = dict(normalization_rule_name="identity", remove_extra_whitespaces=False)
    lossless = dict(plain, byte_fallback=True, allow_whitespace_only_pieces=True)
    llama = dict(lossless, split_digits=True)
    symbols = ["<user>", "\t", "\n", "\n\n", MARK * 2, MARK * 4, "ab c"]
    yield "bpe_lossless", dict(lossless, model_type="bpe", add_dummy_prefix=False)
    yield "bpe_llama", dict(llama, model_type="bpe")
    yield "bpe_all_controls", dict(llama, model_type="bpe", user_defined_symbols=CONTROLS)
    yield "bpe_symbols", dict(lossless, model_type="bpe", add_dummy_prefix=False, user_defined_symbols=symbols)
    yield "bpe_across_words", dict(lossless, model_type="bpe", split_by_whitespace=False)
    yield "bpe_suffix", dict(lossless, model_type="bpe", treat_whitespace_as_suffix=True)
    yield "bpe_no_bytes", dict(plain, model_type="bpe", character_coverage=0.98)
    yield "bpe_nfkc", dict(model_type="bpe", byte_fallback=True)
    yield "bpe_nfkc_symbols", dict(model_type="bpe", user_defined_symbols=symbols, character_coverage=0.98)
    yield "bpe_fold_suffix", dict(model_type="bpe", normalization_rule_name="nmt_nfkc_cf", treat_whitespace_as_suffix=True)
    yield "bpe_spaces_removed", dict(lossless, model_type="bpe", remove_extra_whitespaces=True)
    yield "bpe_nfkc_spaces_kept", dict(lossless, model_type="bpe", normalization_rule_name="nfkc", add_dummy_prefix=False)
    yield "unigram_t5", dict(model_type="unigram", character_coverage=0.98)
    yield "unigram_bytes", dict(lossless, model_type="unigram")
    yield "unigram_symbols", dict(model_type="unigram", byte_fallback=True, user_defined_symbols=symbols)
    yield "unigram_suffix", dict(plain, model_type="unigram", treat_whitespace_as_suffix=True, character_coverage=0.98)
    yield "unigram_across_words", dict(lossless, model_type="unigram", split_by_whitespace=False, add_dummy_prefix=False)
    yield "char", dict(model_type="char", character_coverage=0.98)
    yield "word", dict(model_type="word")


def ids_of(model, texts):
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [processor.encode(text) for text in texts]


def main():
    folder, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files, texts = texts_of(source)
    (folder / "texts.json").write_text(json.dumps(texts))
    for model in sys.argv[3:]:
        (folder / (pathlib.Path(model).name + ".ids")).write_text(json.dumps(ids_of(model, texts)))
    if len(sys.argv) > 3:
        return
    pieces = [piece for text in files[:12] + ODD[:40] for line in text.split("\n") for piece in (line[:4000], "\n")]
    pieces = [piece.replace("\0", "") for piece in pieces if piece.replace("\0", "")] + ["\n\n" * 3] * 40
    names = []
    for name, settings in kinds():
        names.append(name)
        settings = dict(dict(character_coverage=1.0, max_sentence_length=100000, hard_vocab_limit=False, num_threads=1, minloglevel=2), **settings)
        vocabulary = 1500 if settings["model_type"] != "bpe" else 1600
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(pieces), model_prefix=str(folder / name), vocab_size=vocabulary, **settings)
        (folder / f"{name}.ids").write_text(json.dumps(ids_of(folder / f"{name}.model", texts)))
    (folder / "models.json").write_text(json.dumps(names))


if __name__ == "__main__":
    main()
