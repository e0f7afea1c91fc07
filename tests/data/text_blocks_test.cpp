// Blocks stay small and lose no byte, wherever text is split.
#include "terrace/data/text/text_blocks.h"

#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

InputFile input(const std::string& path, TextFormat format = TextFormat::plain) {
  return {path, format, std::filesystem::file_size(path)};
}

struct Read {
  std::vector<std::string> documents;
  std::vector<MalformedLine> malformed;
  size_t longest_block = 0, blocks = 0;
};

Read read_all(const std::vector<InputFile>& files, const BlockRules& rules) {
  Read read;
  TextBlocks blocks(files, rules);
  bool open = false;
  while (const auto block = blocks.next()) {
    ++read.blocks;
    read.longest_block = std::max(read.longest_block, block->bytes.size());
    const auto malformed = for_each_text(*block, rules, [&](std::string_view text, bool starts, bool ends) {
      EXPECT_EQ(starts, !open);
      if (starts) read.documents.emplace_back();
      read.documents.back() += text;
      open = !ends;
    });
    read.malformed.insert(read.malformed.end(), malformed.begin(), malformed.end());
  }
  EXPECT_FALSE(open);
  return read;
}

TEST(TextBlocks, APlainFileIsOneDocumentInSmallBlocks) {
  const TemporaryFolder folder;
  const std::vector<InputFile> files{input(folder.write("a", sample_english())), input(folder.write("b", "")),
                                     input(folder.write("c", "no newline"))};
  const auto tokenizer = SentencePieceTokenizer::from_model(sample_model(), "sample");
  for (uint64_t block_bytes : {1, 2, 7, 1000, 1 << 20}) {
    const BlockRules rules{.block_bytes = block_bytes,
                           .cut = [&](std::string_view text) { return tokenizer.cut(text); }};
    const Read read = read_all(files, rules);
    EXPECT_EQ(read.documents, (std::vector<std::string>{sample_english(), "", "no newline"})) << block_bytes;
  }
}

TEST(TextBlocks, OneEnormousLineComesInBlocksOfBoundedSize) {
  const TemporaryFolder folder;
  const std::string line(64 << 20, 'x');
  const std::string path = folder.write("line", line);
  const BlockRules rules{.block_bytes = 1 << 16};
  const Read read = read_all({input(path)}, rules);
  EXPECT_EQ(read.documents, std::vector<std::string>{line});
  // A block, and at the end what one read brings beyond it.
  EXPECT_LE(read.longest_block, size_t{1 << 16} + (1 << 18));
  EXPECT_GE(read.blocks, 250u);
}

TEST(TextBlocks, ASeparatorLineEndsADocument) {
  const TemporaryFolder folder;
  const std::string text = "<end>\none\n\ntwo\n<end>\n<end>\r\n <end>\n<end> \n<end>\nlast";
  const std::vector<InputFile> files{input(folder.write("a", text)), input(folder.write("b", "x\n<end>\n"))};
  for (uint64_t block_bytes : {1, 3, 5, 8, 1000}) {
    const Read read = read_all(files, {.separator = "<end>", .block_bytes = block_bytes});
    EXPECT_EQ(read.documents, (std::vector<std::string>{"one\n\ntwo\n", " <end>\n<end> \n", "last", "x\n"}))
        << block_bytes;
  }
  const Read blank = read_all({files[0]}, {.separator = ""});
  EXPECT_EQ(blank.documents, (std::vector<std::string>{"<end>\none\n", text.substr(text.find("two"))}));
}

TEST(TextBlocks, ADocumentWithSeparatorsIsCutWhereItsTokensAllow) {
  const TemporaryFolder folder;
  const std::string document = "a line\nand more\nof it\n", text = document + "<end>\n" + document + document;
  const std::vector<InputFile> files{input(folder.write("a", text))};
  for (uint64_t block_bytes : {3, 8, 14, 30, 1000}) {
    std::string parts;
    BlockRules rules{.separator = "<end>", .block_bytes = block_bytes};
    rules.cut = [](std::string_view part) {
      const size_t space = part.rfind(' ');
      return space == std::string_view::npos || space == 0 ? part.size() : space;
    };
    TextBlocks blocks(files, rules);
    while (const auto block = blocks.next()) {
      for_each_text(*block, rules, [&](std::string_view part, bool, bool ends) {
        parts += std::string(part) + (ends ? "|" : "/");
        // A part with a space is cut before it and not at the end of its line.
        EXPECT_TRUE(ends || part.find(' ', 1) == std::string_view::npos || !part.ends_with('\n')) << part;
      });
    }
    std::erase(parts, '/');
    EXPECT_EQ(parts, document + "|" + document + document + "|") << block_bytes;
  }
}

TEST(TextBlocks, SeparatorsAreFoundWhereverABlockEnds) {
  const TemporaryFolder folder;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    expected.push_back("document " + std::to_string(i) + "\n" +
                       std::string(static_cast<size_t>(i) * 37 % 1500 + 1, 'y') + "\n");
    text += expected.back() + "\n";
  }
  const std::vector<InputFile> files{input(folder.write("a", text))};
  EXPECT_EQ(read_all(files, {.separator = "", .block_bytes = 1000}).documents, expected);
}

TEST(TextBlocks, EachJsonLineIsADocumentAndMalformedOnesAreCounted) {
  const TemporaryFolder folder;
  const std::string lines =
      R"({"text": "one"})"
      "\n\n{\"text\": \"two\\nlines\"}\r\n{broken\n{\"text\": \"\"}\n{\"other\": 1}\n{\"text\": \"end\"}";
  const std::vector<InputFile> files{input(folder.write("a.jsonl", lines), TextFormat::json_lines)};
  for (uint64_t block_bytes : {1, 20, 1000}) {
    const Read read = read_all(files, {.block_bytes = block_bytes});
    EXPECT_EQ(read.documents, (std::vector<std::string>{"one", "two\nlines", "", "end"}));
    ASSERT_EQ(read.malformed.size(), 2u);
    EXPECT_EQ(read.malformed[0].line, 4u);
    EXPECT_EQ(read.malformed[1].line, 6u);
    EXPECT_EQ(read.malformed[1].file, files[0].path);
    EXPECT_EQ(read.malformed[1].reason, "no field \"text\"");
  }
}

TEST(TextBlocks, AJsonLinePastTheLimitIsMalformedAndNotHeld) {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"" + std::string(32 << 20, 'x') +
                            "\"}\n{\"text\": \"b\"}\n{\"text\": \"" + std::string(2 << 20, 'y') + "\"}";
  const std::vector<InputFile> files{input(folder.write("a.jsonl", lines), TextFormat::json_lines)};
  const Read read = read_all(files, {.max_line_bytes = 1 << 20});
  EXPECT_EQ(read.documents, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(read.malformed.size(), 2u);
  EXPECT_EQ(read.malformed[0].line, 2u);
  EXPECT_EQ(read.malformed[1].line, 4u);
  EXPECT_NE(read.malformed[0].reason.find("--max-line-bytes"), std::string::npos);
  EXPECT_LE(read.longest_block, size_t{1 << 20} + (1 << 19));
}

}  // namespace
}  // namespace terrace::data
