// The record of a corpus's tokenizer, and the checks of which corpora fit into one run.
#include "terrace/data/text/corpus_record.h"

#include <gmock/gmock.h>

#include <fstream>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/data/text/inspect.h"
#include "terrace/data/text/loader.h"
#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

// A corpus that says that the file `tokenizer` made it. A record takes any bytes for a tokenizer.
void write_recorded(const std::string& prefix, const std::vector<int32_t>& tokens, const std::string& tokenizer) {
  CorpusWriter writer(prefix, 1000, {.overwrite = true, .tokenizer = record_tokenizer(read_text(tokenizer), 1000)});
  writer.append(tokens);
  writer.end_document();
  writer.commit();
}

data::TextConfig config_of(const std::vector<std::string>& train, const std::string& tokenizer = "") {
  data::TextConfig config;
  config.train = train;
  config.validation_share = 0;
  config.tokenizer = tokenizer;
  return config;
}

std::string load_error(const data::TextConfig& config) {
  return user_error([&] { Loader(config, 2, 1000, 1); });
}

// The first digits of the checksum of a file.
std::string digits(const std::string& file) { return checksum(MappedFile(file).bytes()).substr(0, 8); }

TEST(CorpusRecord, PrepareWritesWhichTokenizerEncoded) {
  const TemporaryFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("a.txt", "The old lighthouse")};
  options.output = folder / "a";
  options.tokenizer = folder.write("tokenizer.model", sample_model());
  prepare(options);
  const Json json = Json::parse(read_text(folder / "a.corpus.json"));
  EXPECT_EQ(json["tokenizer"]["checksum"], checksum(MappedFile(options.tokenizer).bytes()));
  EXPECT_EQ(json["tokenizer"]["kind"], "sentencepiece");
  EXPECT_EQ(json["tokenizer"]["vocabulary"], 500);
  EXPECT_EQ(inspect(options.output, "", 0).json()["tokenizer"], json["tokenizer"]);
  EXPECT_EQ(record_tokenizer("{\"model\": {}}", 7).kind, "byte_pair");
}

// The byte lies between the places of the fingerprint, so that the corpus opens.
TEST(CorpusRecord, AFlippedByteIsFoundByTheWholeChecksum) {
  const TemporaryFolder folder;
  const std::string prefix = folder / "a";
  write_recorded(prefix, std::vector<int32_t>(400'000, 7), folder.write("tokenizer", "one"));
  EXPECT_TRUE(verify_corpus(prefix));
  EXPECT_EQ(read_corpus_record(prefix)->bin_checksum, checksum(MappedFile(prefix + ".bin").bytes()));
  std::fstream bin(prefix + ".bin", std::ios::in | std::ios::out | std::ios::binary);
  bin.seekp(8190);
  bin.put(9);
  bin.close();
  EXPECT_EQ(load_error(config_of({prefix})), "") << "the fingerprint looks elsewhere";
  EXPECT_THAT(user_error([&] { verify_corpus(prefix); }),
              AllOf(HasSubstr(prefix + ".bin has another checksum than"), HasSubstr("copy it again")));
  // A record of before there were checksums.
  Json json = Json::parse(read_text(record_path(prefix)));
  json.erase("checksums");
  folder.write("a.corpus.json", json.dump());
  EXPECT_FALSE(verify_corpus(prefix));
  EXPECT_EQ(load_error(config_of({prefix})), "");
}

TEST(CorpusRecord, AnotherTokenizerIsRefusedWithBothHashesAndTheWayOut) {
  const TemporaryFolder folder;
  const std::string right = folder.write("right", "one"), wrong = folder.write("wrong", "two");
  write_recorded(folder / "a", {1, 2, 3, 4}, right);
  EXPECT_EQ(load_error(config_of({folder / "a"}, right)), "");
  EXPECT_EQ(load_error(config_of({folder / "a"})), "");
  const auto names_all = AllOf(HasSubstr(folder / "a"), HasSubstr(digits(right)), HasSubstr(wrong),
                               HasSubstr(digits(wrong)), HasSubstr("terrace data prepare"));
  EXPECT_THAT(load_error(config_of({folder / "a"}, wrong)), names_all);
  EXPECT_THAT(user_error([&] { inspect(folder / "a", wrong, 5); }), names_all);
  // A copy of the file under another name is the same tokenizer.
  EXPECT_EQ(load_error(config_of({folder / "a"}, folder.write("copy", "one"))), "");
}

TEST(CorpusRecord, CorporaOfTwoTokenizersAreNotMixed) {
  const TemporaryFolder folder;
  const std::string one = folder.write("one", "1"), two = folder.write("two", "2");
  write_recorded(folder / "a", {1, 2, 3, 4}, one);
  write_recorded(folder / "b", {5, 6, 7, 8}, two);
  const auto names_both =
      AllOf(HasSubstr(folder / "a"), HasSubstr(folder / "b"), HasSubstr(digits(one)), HasSubstr(digits(two)));
  EXPECT_THAT(load_error(config_of({folder / "a", folder / "b"})), names_both);
  data::TextConfig validated = config_of({folder / "a"});
  validated.validation = {folder / "b"};
  EXPECT_THAT(load_error(validated), names_both);
  write_recorded(folder / "b", {5, 6, 7, 8}, one);
  EXPECT_EQ(load_error(config_of({folder / "a", folder / "b"})), "");
}

TEST(CorpusRecord, ACorpusWithoutARecordGoesWithAnyTokenizer) {
  const TemporaryFolder folder;
  write_corpus(folder / "plain", {{1, 2, 3, 4}});
  write_recorded(folder / "a", {5, 6, 7, 8}, folder.write("one", "1"));
  EXPECT_EQ(load_error(config_of({folder / "plain"}, folder.write("two", "2"))), "");
  EXPECT_EQ(load_error(config_of({folder / "plain", folder / "a"}, folder / "one")), "");
  EXPECT_THAT(inspect(folder / "plain", "", 0).table(), HasSubstr("tokenizer  not recorded"));
  // Written over without a tokenizer, nothing is known of it any more.
  CorpusWriter writer(folder / "a", 1000, {.overwrite = true});
  writer.append(std::vector<int32_t>{5, 6, 7, 8});
  writer.commit();
  EXPECT_EQ(TokenCorpus(folder / "a").record(), std::nullopt);
}

// Every state that a copy of some of the files, or a kill among renames in any order, could leave.
TEST(CorpusRecord, FilesOfTwoRunsAreRefusedInEveryMixture) {
  for (const bool same_shape : {true, false}) {
    const TemporaryFolder folder;
    for (const std::string run : {"0", "1"}) {
      const std::string tokenizer = folder.write(run + "/tokenizer", "of run " + run);
      const int32_t first = run == "0" ? 1 : 2;
      write_recorded(
          folder / (run + "/c"),
          same_shape || run == "0" ? std::vector<int32_t>{first, 7, 8, 9} : std::vector<int32_t>{first, 7, 8, 9, 10},
          tokenizer);
    }
    int accepted = 0;
    for (int mixture = 0; mixture < 16; ++mixture) {
      std::set<std::string> distinct;  // runs that gave a file in which the runs differ
      fs::create_directory(folder.path() / "mixed");
      for (int file = 0; const char* name : {"c.bin", "c.idx", "c.corpus.json", "tokenizer"}) {
        const std::string run = std::to_string(mixture >> file & 1);
        fs::copy_file(folder / (run + "/" + name), folder / ("mixed/" + std::string(name)));
        if (!same_shape || file != 1) distinct.insert(run);
        ++file;
      }
      const std::string error = load_error(config_of({folder / "mixed/c"}, folder / "mixed/tokenizer"));
      EXPECT_EQ(error.empty(), distinct.size() == 1) << mixture << ": " << error;
      accepted += error.empty() ? 1 : 0;
      fs::remove_all(folder.path() / "mixed");
    }
    EXPECT_EQ(accepted, same_shape ? 4 : 2);
  }
}

TEST(CorpusRecord, ADamagedRecordIsRefusedAndNamed) {
  const TemporaryFolder folder;
  write_recorded(folder / "a", {1, 2, 3, 4}, folder.write("one", "1"));
  for (const std::string content : {"", "{", "[]", "{\"format\": 1}", "{\"format\": 2}"}) {
    folder.write("a.corpus.json", content);
    EXPECT_THAT(user_error([&] { TokenCorpus(folder / "a"); }), AllOf(HasSubstr("a.corpus.json"), HasSubstr("remove")))
        << content;
  }
}

TEST(CorpusRecord, OneCorpusUnderTwoNamesIsRefusedWithBoth) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {{1, 2, 3, 4}});
  write_corpus(folder / "b", {{1, 2, 3, 4}});  // the same tokens are not the same files
  fs::create_directory(folder.path() / "links");
  for (const char* suffix : {".bin", ".idx"}) {
    fs::create_symlink(folder / (std::string("a") + suffix), folder / (std::string("links/linked") + suffix));
  }
  EXPECT_EQ(load_error(config_of({folder / "a", folder / "b"})), "");
  for (const std::string other : {"a", "./a", "links/../a", "links/linked"}) {
    const std::string name = folder.path().string() + "/" + other;
    const auto names_both = AllOf(HasSubstr(folder / "a"), HasSubstr(name), HasSubstr("name a corpus once"));
    EXPECT_THAT(load_error(config_of({folder / "a", folder / "b", name})), names_both);
    data::TextConfig validated = config_of({folder / "b", folder / "a"});
    validated.validation = {name};
    EXPECT_THAT(load_error(validated), names_both);
  }
}

TEST(CorpusFingerprint, TellsCorporaOfOneShapeApartWhereverTheyLie) {
  const TemporaryFolder folder;
  const auto tokens_of = [](int32_t step) {
    std::vector<int32_t> tokens(1'000'000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * static_cast<size_t>(step) % 997);
    return tokens;
  };
  const auto documents_of = [&](const std::vector<int32_t>& tokens, size_t first) {
    return std::vector<std::vector<int32_t>>{{tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first)},
                                             {tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()}};
  };
  write_corpus(folder / "a", documents_of(tokens_of(3), 10));
  write_corpus(folder / "other_tokens", documents_of(tokens_of(5), 10));
  write_corpus(folder / "other_documents", documents_of(tokens_of(3), 11));
  std::vector<int32_t> other_end = tokens_of(3);
  other_end.back() += 1;
  write_corpus(folder / "other_end", documents_of(other_end, 10));
  fs::create_directory(folder.path() / "copy");
  for (const char* file : {"a.bin", "a.idx"}) fs::copy_file(folder / file, folder / (std::string("copy/") + file));
  const auto fingerprint = [&](const std::string& name) { return TokenCorpus(folder / name).fingerprint(); };
  EXPECT_EQ(fingerprint("copy/a"), fingerprint("a"));
  EXPECT_EQ(fingerprint("a"), corpus_fingerprint(folder / "copy/a"));
  std::set<std::string> distinct;
  for (const char* name : {"a", "other_tokens", "other_documents", "other_end"}) {
    const TokenCorpus corpus(folder / name);
    EXPECT_EQ(corpus.bin_bytes(), TokenCorpus(folder / "a").bin_bytes());
    EXPECT_EQ(corpus.index_bytes(), TokenCorpus(folder / "a").index_bytes());
    distinct.insert(corpus.fingerprint());
  }
  EXPECT_EQ(distinct.size(), 4u);
}

TEST(CorpusFingerprint, EveryByteOfASmallCorpusCounts) {
  const std::vector<std::byte> index(40'000), bin(200'000);
  const std::string before = corpus_fingerprint(index, bin);
  for (size_t at = 0; at < bin.size(); at += 999) {
    std::vector<std::byte> changed = bin;
    changed[at] = std::byte{1};
    ASSERT_NE(corpus_fingerprint(index, changed), before) << at;
    if (at >= index.size()) continue;
    changed = index;
    changed[at] = std::byte{1};
    ASSERT_NE(corpus_fingerprint(changed, bin), before) << at;
  }
  EXPECT_NE(corpus_fingerprint(bin, index), before);
}

// Checkpoints hold the full identity; a run that began with an earlier version must find the same.
TEST(CorpusFingerprint, TheFullIdentityIsTheChecksumOfTheIndex) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {{1, 2, 3, 4, 5, 6, 7}});
  data::TextConfig config = config_of({folder / "a"});
  config.validation_share = 0.34;
  const std::string index = checksum(MappedFile(folder / "a.idx").bytes());
  EXPECT_EQ(Loader(config, 2, 1000, 1).identity(),
            (Json::array(
                {{{"corpus", "a"}, {"tokens", 7}, {"index_checksum", index}, {"first_window", 0}, {"windows", 2}},
                 {{"corpus", "a"}, {"tokens", 7}, {"index_checksum", index}, {"first_window", 2}, {"windows", 1}}})));
}

}  // namespace
}  // namespace terrace::data
