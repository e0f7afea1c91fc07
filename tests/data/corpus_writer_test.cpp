// Corpora are exchanged with Megatron's own package, and their files are written atomically.
#include "terrace/data/text/corpus_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include "terrace/data/text/token_corpus.h"
#include "tests/data/test_corpus.h"
#include "tests/file_size_limit.h"

namespace terrace::data {
namespace {

// Loads Megatron's file alone: the package around it needs much that a reader does not.
constexpr const char* import_megatron = R"(
import importlib, pathlib, sys, types
root = next(p for p in sys.path if (pathlib.Path(p) / 'megatron/core').is_dir())
for name in ['megatron', 'megatron.core', 'megatron.core.datasets']:
  package = types.ModuleType(name)
  package.__path__ = [str(pathlib.Path(root) / name.replace('.', '/'))]
  sys.modules[name] = package
quiet = types.ModuleType('megatron.core.utils')
quiet.log_single_rank = lambda *arguments, **named: None
sys.modules[quiet.__name__] = quiet
indexed = importlib.import_module('megatron.core.datasets.indexed_dataset')
import numpy, torch
)";

std::vector<int64_t> read_tokens(const TokenCorpus& corpus) {
  std::vector<int64_t> tokens(corpus.tokens());
  corpus.read(0, tokens, INT64_MAX);
  return tokens;
}

TEST(CorpusWriter, MegatronOpensOurs) {
  const TemporaryFolder folder;
  write_corpus(folder / "narrow", {{5, 65'498, 1}, {7, 1}, {1}}, 65'499);
  write_corpus(folder / "wide", {{70'000, 1}, {2, 3, 1}}, 65'500);
  const std::string output = run_python(folder, std::string(import_megatron) + R"(
for name in ['narrow', 'wide']:
  data = indexed.IndexedDataset(sys.argv[1] + '/' + name)
  print(name, data.index.dtype.__name__, len(data), data.document_indices.tolist(), [data[i].tolist() for i in range(len(data))])
)",
                                        {folder.path().string()});
  EXPECT_EQ(output,
            "narrow uint16 3 [0, 1, 2, 3] [[5, 65498, 1], [7, 1], [1]]\n"
            "wide int32 2 [0, 1, 2] [[70000, 1], [2, 3, 1]]\n");
}

TEST(CorpusWriter, WeOpenMegatrons) {
  const TemporaryFolder folder;
  run_python(folder, std::string(import_megatron) + R"(
for kind in [numpy.uint8, numpy.uint16, numpy.int32, numpy.int64]:
  name = sys.argv[1] + '/' + kind.__name__
  builder = indexed.IndexedDatasetBuilder(name + '.bin', dtype=kind)
  builder.add_document(torch.tensor([1, 2, 3, 4, 5]), [3, 2])
  builder.add_item(torch.tensor([100]))
  builder.end_document()
  builder.finalize(name + '.idx')
)",
             {folder.path().string()});
  for (const auto& [name, type] : {std::pair{"uint8", TokenType::uint8},
                                   {"uint16", TokenType::uint16},
                                   {"int32", TokenType::int32},
                                   {"int64", TokenType::int64}}) {
    const TokenCorpus corpus(folder / name);
    EXPECT_EQ(corpus.index().type(), type);
    EXPECT_EQ(corpus.index().sequences(), 3u);
    EXPECT_EQ(corpus.index().documents(), 2u);
    EXPECT_EQ(corpus.index().document_begin(1), 5u);
    EXPECT_EQ(read_tokens(corpus), (std::vector<int64_t>{1, 2, 3, 4, 5, 100}));
  }
}

TEST(CorpusWriter, ALongDocumentBecomesSeveralSequencesOfOneDocument) {
  const TemporaryFolder folder;
  {
    CorpusWriter writer(folder / "c", 1000, {.longest_sequence = 4});
    writer.append(std::vector<int32_t>{1, 2, 3});
    writer.append(std::vector<int32_t>{4, 5, 6, 7, 8, 9});
    writer.end_document();
    writer.append(std::vector<int32_t>{10, 11, 12, 13});
    writer.commit();  // closes the open document
    EXPECT_EQ(writer.documents(), 2u);
  }
  const TokenCorpus corpus(folder / "c", CorpusIndex::Check::all);
  EXPECT_EQ(corpus.index().sequences(), 4u);
  EXPECT_EQ(corpus.index().documents(), 2u);
  EXPECT_EQ(corpus.index().document_begin(1), 9u);
  EXPECT_EQ(corpus.tokens(), 13u);
}

TEST(CorpusWriter, UncommittedCorpusLeavesNoFile) {
  const TemporaryFolder folder;
  {
    CorpusWriter writer(folder / "c", 1000, {});
    writer.append(std::vector<int32_t>{1, 2, 3});
    EXPECT_EQ(folder.names().size(), 1u);  // the .bin under its temporary name
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(CorpusWriter, AnExistingCorpusIsKeptUnlessOverwritten) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{1, 2, 3}});
  EXPECT_NE(user_error([&] { CorpusWriter(folder / "c", 1000, {}); }).find("--overwrite"), std::string::npos);
  {
    CorpusWriter abandoned(folder / "c", 1000, {.overwrite = true});
    abandoned.append(std::vector<int32_t>{9});
  }
  EXPECT_EQ(read_tokens(TokenCorpus(folder / "c")), (std::vector<int64_t>{1, 2, 3}));
  CorpusWriter writer(folder / "c", 1000, {.overwrite = true});
  writer.append(std::vector<int32_t>{4, 5});
  writer.commit();
  EXPECT_EQ(read_tokens(TokenCorpus(folder / "c")), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"c.bin", "c.idx"}));
}

// Starts a process that writes to the corpus and waits; kills it as a crash or a node failure would.
pid_t start_writer(const std::string& prefix) {
  int ready[2];
  EXPECT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    CorpusWriter writer(prefix, 1000, {.overwrite = true});
    writer.append(std::vector<int32_t>(100'000, 7));
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char byte;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

TEST(CorpusWriter, AKilledRunLeavesNoFinalNameAndTheNextTidiesUp) {
  const TemporaryFolder folder;
  const pid_t child = start_writer(folder / "c");
  EXPECT_NE(user_error([&] { CorpusWriter(folder / "c", 1000, {}); }).find(std::to_string(child)), std::string::npos)
      << "two processes must not write one corpus";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(folder.names().size(), 1);
  EXPECT_TRUE(folder.names()[0].starts_with(".c.bin.")) << folder.names()[0];
  EXPECT_NE(user_error([&] { TokenCorpus(folder / "c"); }).find("there is no corpus"), std::string::npos);
  write_corpus(folder / "c", {{1, 2, 3}});
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"c.bin", "c.idx"}));
}

// The last buffer of each file is written only when the file is closed or synced.
TEST(CorpusWriter, ADiskThatFillsWithTheLastBufferLeavesTheOldCorpus) {
  const std::vector<int32_t> one{1}, many(100'000, 7);
  struct Case {
    const std::vector<int32_t>& document;
    int documents;
    rlim_t limit;  // of bytes a file: less than the largest has, by less than a buffer
    std::string named;
  };
  for (const auto& [document, documents, limit, named] :
       {Case{many, 1, 199'999, ".c.bin."}, Case{one, 1000, 20'000, ".c.idx."}, Case{one, 1000, 3'999, "lengths"}}) {
    const TemporaryFolder folder;
    write_corpus(folder / "c", {{1, 2, 3}});
    {
      CorpusWriter writer(folder / "c", 1000, {.overwrite = true});
      const FileSizeLimit full_disk(limit);
      for (int i = 0; i < documents; ++i) {
        writer.append(document);
        writer.end_document();
      }
      try {
        writer.commit();
        ADD_FAILURE() << named << " was written past the limit";
      } catch (const std::system_error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(named));
      }
    }
    EXPECT_EQ(read_tokens(TokenCorpus(folder / "c")), (std::vector<int64_t>{1, 2, 3})) << named;
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"c.bin", "c.idx"}));
  }
}

TEST(CorpusWriter, ABinWithoutAnIndexIsCalledIncomplete) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{1, 2, 3}});
  EXPECT_NE(user_error([&] { TokenCorpus(folder / "c.bin"); }).find("without .bin"), std::string::npos);
  std::filesystem::remove(folder / "c.idx");
  EXPECT_NE(user_error([&] { TokenCorpus(folder / "c"); }).find("c.idx is missing"), std::string::npos);
}

TEST(TokenCorpus, ATokenPastTheVocabularyIsNamedWithItsPlace) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{1, 2, 999, 3}});
  const TokenCorpus corpus(folder / "c");
  std::vector<int64_t> tokens(3);
  const std::string message = user_error([&] { corpus.read(1, tokens, 999); });
  EXPECT_NE(message.find("c.bin: token 999 at position 2 is not below the vocabulary of 999"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace terrace::data
