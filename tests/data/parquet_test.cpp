// Parquet of every kind gives the corpus that the same texts give as JSON lines, and damaged files are refused.
#include <gmock/gmock.h>

#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "tests/data/peak_memory.h"
#include "tests/data/test_corpus.h"
#include "tests/paths.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The cases in the files that tests/data/parquet_cases.py writes.
class ParquetCases {
 public:
  explicit ParquetCases(const std::string& size = "") {
    const std::string command = tests::python() + " " + tests::source_dir().string() + "/tests/data/parquet_cases.py " +
                                folder_.path().string() + " " + size;
    if (std::system(command.c_str()) != 0) throw std::runtime_error("parquet_cases.py failed");
    folder_.write("tokenizer.model", sample_model());
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  PrepareOptions options(const std::string& name) const {
    PrepareOptions options;
    options.inputs = {path(name)};
    options.output = path("out/corpus");
    options.tokenizer = path("tokenizer.model");
    options.threads = 2;
    options.overwrite = true;
    return options;
  }

  // The whole corpus: tokens and index.
  std::string corpus(const PrepareOptions& options) const {
    prepare(options);
    return read_text(bin_path(options.output)) + read_text(index_path(options.output));
  }

  std::string refusal(const PrepareOptions& options) const {
    std::filesystem::remove_all(path("out"));
    const std::string message = user_error([&] { prepare(options); });
    EXPECT_TRUE(!std::filesystem::exists(path("out")) || std::filesystem::is_empty(path("out"))) << message;
    return message;
  }
  std::string refusal(const std::string& name) const { return refusal(options(name)); }

 private:
  TemporaryFolder folder_;
};

TEST(Parquet, GivesTheCorpusOfTheSameTextsAsJsonLines) {
  const ParquetCases cases;
  const std::string expected = cases.corpus(cases.options("same.jsonl"));
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(cases.path("same"))) {
    PrepareOptions options = cases.options("same/" + file.path().filename().string());
    EXPECT_TRUE(cases.corpus(options) == expected) << file.path();
    ++files;
  }
  EXPECT_EQ(files, 18u);
  PrepareOptions options = cases.options("nested.parquet");
  options.rules.field = "meta.text";
  EXPECT_TRUE(cases.corpus(options) == expected);
  for (const int threads : {1, 2, 5}) {
    for (const uint64_t block_bytes : {1, 1000, 1'000'000'000}) {
      options.threads = threads;
      options.rules.block_bytes = block_bytes;
      EXPECT_TRUE(cases.corpus(options) == expected) << threads << " threads, blocks of " << block_bytes;
    }
  }
  options.inputs = {cases.path("dotted.parquet")};
  EXPECT_TRUE(cases.corpus(options) == expected);
  // The first bytes say it too.
  std::filesystem::copy(cases.path("same/zstd.parquet"), cases.path("renamed.bin"));
  EXPECT_TRUE(cases.corpus(cases.options("renamed.bin")) == expected);
}

TEST(Parquet, RowsWithoutTextAreNamedLikeLines) {
  const ParquetCases cases;
  PrepareOptions options = cases.options("nulls.parquet");
  EXPECT_THAT(cases.refusal(options),
              AllOf(HasSubstr("2 malformed lines so far"), HasSubstr("nulls.parquet:2: column \"text\" is null")));
  options.max_malformed = 10;
  const auto rows_of = [](const PrepareReport& report) {
    std::vector<uint64_t> rows;
    for (const MalformedLine& line : report.first_malformed) rows.push_back(line.line);
    return rows;
  };
  PrepareReport report = prepare(options);
  EXPECT_THAT(rows_of(report), ElementsAre(2, 4));
  EXPECT_EQ(report.documents, 2u);
  EXPECT_EQ(report.empty_documents, 1u);
  options.rules.field = "meta.text";  // row 4 has no meta
  EXPECT_THAT(rows_of(prepare(options)), ElementsAre(2, 4));
  options = cases.options("not_utf8.parquet");
  options.max_malformed = 1;
  report = prepare(options);
  EXPECT_THAT(rows_of(report), ElementsAre(2));
  EXPECT_THAT(report.first_malformed[0].reason, HasSubstr("not UTF-8 at byte 2"));
  options = cases.options("same/snappy.parquet");
  options.rules.max_line_bytes = 199'999;
  EXPECT_THAT(cases.refusal(options),
              HasSubstr("snappy.parquet:503: longer than 199999 bytes; raise --max-line-bytes"));
}

TEST(Parquet, FilesThatCannotBeReadAreRefusedAndNothingIsWritten) {
  const ParquetCases cases;
  for (const char* name : {"cut_off.parquet", "empty.parquet", "text.parquet"}) {
    EXPECT_THAT(cases.refusal(name), AllOf(HasSubstr(name), HasSubstr("cannot be read as a Parquet file")));
  }
  for (const char* name : {"damaged.parquet", "hole.parquet"}) {
    EXPECT_THAT(cases.refusal(name), AllOf(HasSubstr(name), HasSubstr("is damaged or cut off behind row")));
  }
  EXPECT_THAT(cases.refusal("no_rows.parquet"), HasSubstr("holds no text"));
  EXPECT_THAT(cases.refusal("no_columns.parquet"), HasSubstr("no column \"text\""));
  PrepareOptions options = cases.options("same/none.parquet");
  options.rules.field = "body";
  EXPECT_THAT(cases.refusal(options),
              AllOf(HasSubstr("none.parquet has no column \"body\""),
                    HasSubstr("id (int64), text (string), tags.list.element (list of string)"), HasSubstr("--field")));
  options.rules.field = "id";
  EXPECT_THAT(cases.refusal(options), HasSubstr("column \"id\" is of type int64"));
  options.rules.field = "tags.list.element";
  EXPECT_THAT(cases.refusal(options), HasSubstr("is of type list of string and not of strings"));
  options.rules.field = "text";
  options.format = FormatChoice::plain;
  EXPECT_THAT(cases.refusal(options), HasSubstr("is Parquet, which is read from regular files and not as text"));
  // All files are looked at before the first is encoded.
  options = cases.options("same/none.parquet");
  options.inputs.push_back(cases.path("cut_off.parquet"));
  options.train = true;
  options.tokenizer = cases.path("out/trained.model");
  testing::internal::CaptureStdout();
  EXPECT_THAT(cases.refusal(options), HasSubstr("cut_off.parquet"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Parquet, ATokenizerIsTrainedOnIt) {
  const ParquetCases cases;
  const auto trained = [&](const std::string& name) {
    PrepareOptions options = cases.options(name);
    options.train = true;
    options.tokenizer = cases.path("trained.model");
    options.vocabulary = 320;
    prepare(options);
    return read_text(options.tokenizer);
  };
  EXPECT_TRUE(trained("same/zstd.parquet") == trained("same.jsonl"));
}

// Peak resident memory of a process that reads a file with one row group of so many MiB.
int64_t peak_of_reading(int64_t mebibytes) {
  const ParquetCases cases(std::to_string(mebibytes));
  const InputFile file{.path = cases.path("large.parquet"), .format = TextFormat::parquet};
  const std::vector<InputFile> files{file};
  return peak_memory_of([&] {
    TextBlocks blocks(files, {});
    int64_t bytes = 0;
    while (const auto block = blocks.next()) bytes += static_cast<int64_t>(block->bytes.size());
    return bytes == mebibytes << 20;
  });
}

TEST(Parquet, MemoryDoesNotGrowWithTheRowGroup) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const int64_t little = peak_of_reading(4), much = peak_of_reading(128);
  // A page has a MiB.
  EXPECT_LT(much - little, 8 << 20) << little << " bytes for 4 MiB, " << much << " for 128";
}

}  // namespace
}  // namespace terrace::data
