// Time to open a corpus of a billion tokens and to read the first and later batches of it.
// Usage: bench_data_loader_open FOLDER   (the files are sparse: about 25 MB on disk)
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/loader.h"

namespace {

constexpr int64_t tokens = 1'000'000'000, documents = 1'000'000;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void write_sparse_corpus(const std::string& prefix) {
  std::ofstream(prefix + ".bin").close();
  std::filesystem::resize_file(prefix + ".bin", 2 * tokens);
  std::ofstream index(prefix + ".idx", std::ios::binary);
  const auto put = [&](auto value) { index.write(reinterpret_cast<const char*>(&value), sizeof(value)); };
  index << terrace::data::index_magic;
  put(terrace::data::index_version);
  put(uint8_t{8});
  put(uint64_t{documents});
  put(uint64_t{documents + 1});
  for (int64_t i = 0; i < documents; ++i) put(static_cast<int32_t>(tokens / documents));
  for (int64_t i = 0; i < documents; ++i) put(int64_t{2 * i * (tokens / documents)});
  for (int64_t i = 0; i <= documents; ++i) put(i);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", arguments[0]);
    return 2;
  }
  const std::string prefix = std::string(arguments[1]) + "/billion";
  write_sparse_corpus(prefix);
  terrace::data::TextConfig config;
  config.train = {prefix};
  config.reset_at_documents = true;
  const double began = seconds();
  const terrace::data::Loader loader(config, 2048, 50257, 1);
  const double opened = seconds();
  loader.batch(terrace::data::Split::train, 0, 8);
  const double first = seconds();
  constexpr int batches = 200;
  for (uint64_t i = 1; i <= batches; ++i) loader.batch(terrace::data::Split::train, i * 8, 8);
  fmt::print(
      "{} tokens in {} documents: opened in {:.3f} s, first batch of 8 x 2048 in {:.2f} ms, then {:.2f} ms each\n",
      tokens, documents, opened - began, 1e3 * (first - opened), 1e3 * (seconds() - first) / batches);
  std::filesystem::remove(prefix + ".bin");
  std::filesystem::remove(prefix + ".idx");
  return 0;
}
