// Token files of llm.c: read as corpora, and refused where they are damaged.
#include "terrace/data/text/token_file.h"

#include <gmock/gmock.h>

#include <cstring>

#include "terrace/data/text/inspect.h"
#include "terrace/data/text/loader.h"
#include "terrace/data/text/token_corpus.h"
#include "tests/data/test_corpus.h"
#include "tests/data/zeroed_file.h"

namespace terrace::data {
namespace {

using ::testing::HasSubstr;

// Writes the file as llm.c's dev/data/data_common.py does.
constexpr const char* python_writer = R"(
import sys, numpy
tokens, version, path = [int(t) for t in sys.argv[1].split()], int(sys.argv[2]), sys.argv[3]
header = numpy.zeros(256, dtype=numpy.int32)
header[:3] = 20240520, version, len(tokens)
with open(path, 'wb') as file:
    file.write(header.tobytes())
    file.write(numpy.array(tokens, dtype=numpy.uint16 if version == 1 else numpy.uint32).tobytes())
)";

std::string write_file(const TemporaryFolder& folder, const std::string& tokens, int version) {
  std::string path = folder / "shard.bin";
  run_python(folder, python_writer, {tokens, std::to_string(version), path});
  return path;
}

std::vector<int64_t> all_tokens(const TokenCorpus& corpus, int64_t vocabulary) {
  std::vector<int64_t> tokens(corpus.tokens());
  corpus.read(0, tokens, vocabulary);
  return tokens;
}

TEST(TokenFile, DocumentsEndAtTheEndToken) {
  const TemporaryFolder folder;
  const struct {
    int version;
    std::string end;
    int64_t vocabulary;
  } kinds[] = {{1, "50256", 50257}, {7, "128000", 128256}};
  for (const auto& [version, end, vocabulary] : kinds) {
    const TokenCorpus corpus(write_file(folder, end + " 5 6 7 " + end + " 8 " + end + " 9 10", version));
    const int64_t last = std::stoll(end);
    EXPECT_EQ(all_tokens(corpus, vocabulary), (std::vector<int64_t>{last, 5, 6, 7, last, 8, last, 9, 10}));
    std::vector<uint64_t> begins;
    for (uint64_t i = 0; i <= corpus.index().documents(); ++i) begins.push_back(corpus.index().document_begin(i));
    EXPECT_EQ(begins, (std::vector<uint64_t>{0, 1, 5, 7, 9}));
    EXPECT_EQ(corpus.index().document_of(8), 3U);
  }
}

TEST(TokenFile, OpensAsACorpusForTrainingAndInspection) {
  const TemporaryFolder folder;
  std::string tokens = "50256";
  for (int i = 1; i < 400; ++i) tokens += i % 40 == 0 ? " 50256" : " " + std::to_string(i % 40);
  const std::string path = write_file(folder, tokens, 1);
  data::TextConfig config;
  config.train = {path};
  config.validation_share = 0.1;
  config.reset_at_documents = true;
  const Loader loader(config, 8, 50257, 1);
  EXPECT_EQ(loader.samples(Split::train) + loader.samples(Split::validation), (400U - 1) / 8);
  EXPECT_EQ(loader.identity()[0]["tokens"], 400);
  EXPECT_EQ(TokenCorpus(path).fingerprint(), corpus_fingerprint(path));
  const CorpusSummary summary = inspect(path, "", 0);
  EXPECT_EQ(summary.documents, 11U);
  EXPECT_EQ(summary.longest, 40U);
  EXPECT_EQ(summary.largest_token, 50256);
}

// The file with a number of its header changed.
std::vector<std::byte> with_header(size_t place, int32_t value, size_t size = token_file_header_bytes + 6) {
  std::vector<std::byte> bytes(size);
  int32_t header[3] = {token_file_magic, 1, 3};
  header[place] = value;
  std::memcpy(bytes.data(), header, sizeof(header));
  return bytes;
}

std::string refusal(const std::vector<std::byte>& bytes) {
  return user_error([&] { parse_token_file(bytes, "x.bin"); });
}

// The documents of such a file are found by reading every token, which one process does for all.
TEST(TokenFile, IsNotReadWhereAnotherProcessHasFoundItsDocuments) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder, "5 6 7 50256 8 9 50256", 1);
  const std::string noted = noted_while([&] { TokenCorpus{path}; });
  zero_in_place(path);
  EXPECT_NE(user_error([&] { TokenCorpus{path}; }), "");
  const TakenTexts taken(noted);
  const TokenCorpus other(path);
  EXPECT_EQ(other.tokens(), 7u);
  EXPECT_EQ(other.index().document_begin(1), 4u);
}

TEST(TokenFile, DamageIsNamed) {
  EXPECT_EQ(refusal(with_header(0, token_file_magic)), "");
  EXPECT_THAT(refusal(std::vector<std::byte>(1023)), HasSubstr("it has 1023 bytes, and the header alone takes 1024"));
  EXPECT_THAT(refusal(with_header(0, 7)), HasSubstr("begins with 20240520: it begins with 7"));
  EXPECT_THAT(refusal(with_header(0, 20240326)), HasSubstr("it holds a model"));
  EXPECT_THAT(refusal(with_header(0, 20240522)), HasSubstr("questions for evaluation"));
  EXPECT_THAT(refusal(with_header(1, 2)), HasSubstr("version 2; known are 1"));
  EXPECT_THAT(refusal(with_header(2, 4)), HasSubstr("its header says 4 tokens of 2 bytes, and 6 bytes follow it"));
  EXPECT_THAT(refusal(with_header(2, -1)), HasSubstr("-1 tokens"));
  EXPECT_THAT(refusal(with_header(1, 7)), HasSubstr("3 tokens of 4 bytes"));
  EXPECT_THAT(refusal(with_header(0, token_file_magic, 1024 + 5)), HasSubstr("truncated"));
}

TEST(TokenFile, OneOfAPairIsNotTakenForOne) {
  const TemporaryFolder folder;
  write_corpus(folder / "pair", {{1, 2, 3}});
  EXPECT_THAT(user_error([&] { TokenCorpus(folder / "pair.bin"); }), HasSubstr("give the name without .bin"));
  EXPECT_THAT(user_error([&] { TokenCorpus(folder / "absent.bin"); }), HasSubstr("does not exist"));
  EXPECT_THAT(user_error([&] { TokenCorpus(folder.write("text.bin", std::string(2000, 'x'))); }),
              HasSubstr("is not a token file of llm.c"));
}

TEST(TokenFile, FileOfNoTokensIsAnEmptyCorpus) {
  const TemporaryFolder folder;
  const TokenCorpus corpus(write_file(folder, "", 1));
  EXPECT_EQ(corpus.tokens(), 0U);
  EXPECT_EQ(corpus.index().documents(), 0U);
}

}  // namespace
}  // namespace terrace::data
