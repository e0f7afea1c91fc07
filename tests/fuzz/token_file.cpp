// Fuzzes the reader of llm.c's token files, as a corpus.
#include <fstream>
#include <vector>

#include "terrace/data/text/token_corpus.h"
#include "tests/fuzz/judge.h"
#include "tests/scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const terrace::ScratchFolder folder;
  const std::filesystem::path path = folder / "tokens.bin";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size))
      .flush();
  terrace::reads_or_refuses([&] {
    const terrace::data::TokenCorpus corpus(path.string());
    TERRACE_CHECK(corpus.tokens() <= size, "{} tokens in {} bytes", corpus.tokens(), size);
    std::vector<int64_t> tokens(corpus.tokens());
    corpus.read(0, tokens, 200000);
  });
  return 0;
}
