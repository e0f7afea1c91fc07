// Fuzzes the reader of token corpora: four bytes say how many of the following are the .idx, the rest is the .bin.
#include <cstring>
#include <fstream>
#include <vector>

#include "terrace/data/text/token_corpus.h"
#include "tests/fuzz/judge.h"
#include "tests/scratch_folder.h"

namespace {

using terrace::data::CorpusIndex;
using terrace::data::TokenCorpus;

void write(const std::filesystem::path& path, const uint8_t* data, size_t size) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

void read_all(const std::string& prefix, CorpusIndex::Check check) {
  const TokenCorpus corpus(prefix, check);
  const CorpusIndex& index = corpus.index();
  uint64_t before = 0;
  for (uint64_t document = 0; document <= index.documents(); ++document) {
    const uint64_t begin = index.document_begin(document);
    TERRACE_CHECK(before <= begin && begin <= index.tokens(), "document {} begins at {}", document, begin);
    before = begin;
  }
  std::vector<int64_t> tokens(index.tokens());
  if (!tokens.empty() && index.documents() > 0) index.document_of(index.tokens() - 1);
  corpus.read(0, tokens, 1000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const terrace::ScratchFolder folder;
  uint32_t index_bytes = 0;
  if (size < sizeof(index_bytes)) return 0;
  std::memcpy(&index_bytes, data, sizeof(index_bytes));
  data += sizeof(index_bytes);
  size -= sizeof(index_bytes);
  if (index_bytes > size) return 0;
  write(folder / "corpus.idx", data, index_bytes);
  write(folder / "corpus.bin", data + index_bytes, size - index_bytes);
  for (const auto check : {CorpusIndex::Check::all, CorpusIndex::Check::sampled}) {
    terrace::reads_or_refuses([&] { read_all((folder / "corpus").string(), check); });
  }
  return 0;
}
