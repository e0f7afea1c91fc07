// Memory that does not grow with the data: preparing ten times the text, opening a corpus of a billion tokens.
#include "terrace/observe/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "terrace/data/text/loader.h"
#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "tests/data/peak_memory.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

constexpr int64_t mebibyte = 1 << 20;

// Half of it one line, half documents of JSON. Every tenth document has a word that no other has.
void write_inputs(const TemporaryFolder& folder, int64_t bytes) {
  std::string words = sample_english();
  std::replace(words.begin(), words.end(), '\n', ' ');
  std::filesystem::create_directories(folder / "in");
  std::ofstream line(folder / "in/line.txt", std::ios::binary);
  for (int64_t written = 0; written < bytes / 2; written += static_cast<int64_t>(words.size())) line << words;
  std::ofstream documents(folder / "in/documents.jsonl", std::ios::binary);
  for (int64_t number = 0; documents.tellp() < bytes / 2; ++number) {
    const std::string own = number % 10 == 0 ? fmt::format(" number{}", number) : "";
    documents << R"({"text": ")"
              << "Fishermen repaired their nets; gulls argued over scraps." << own << "\"}\n";
  }
}

// Peak resident memory of a process that prepares so much text.
int64_t peak_of_preparing(int64_t bytes) {
  const TemporaryFolder folder;
  write_inputs(folder, bytes);
  PrepareOptions options;
  options.inputs = {folder / "in"};
  options.output = folder / "out";
  options.tokenizer = folder.write("tokenizer.model", sample_model());
  options.threads = 1;
  return peak_memory_of([&] {
    const PrepareReport report = prepare(options);
    return static_cast<int64_t>(report.text_bytes) > bytes / 2;
  });
}

TEST(Memory, PreparingTakesBoundedMemoryForAnyInput) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const int64_t little = peak_of_preparing(20 * mebibyte), much = peak_of_preparing(200 * mebibyte);
  // Blocks of a MiB come and go in another order each time: the difference was 0 to 4 MB in ten runs. A number of 8
  // bytes kept for each of the 1.4 million further documents would be 11 MB.
  EXPECT_LT(much - little, 8 * mebibyte) << little << " bytes for 20 MiB, " << much << " for 200";
}

// An index of documents of one length beside a .bin of zeros that takes no room on the disk.
void write_sparse_corpus(const std::string& prefix, int64_t tokens, int64_t documents) {
  std::ofstream(bin_path(prefix)).close();
  std::filesystem::resize_file(bin_path(prefix), static_cast<uint64_t>(2 * tokens));
  std::ofstream index(index_path(prefix), std::ios::binary);
  const auto put = [&](auto value) { index.write(reinterpret_cast<const char*>(&value), sizeof(value)); };
  index << index_magic;
  put(index_version);
  put(uint8_t{8});
  put(static_cast<uint64_t>(documents));
  put(static_cast<uint64_t>(documents + 1));
  for (int64_t i = 0; i < documents; ++i) put(static_cast<int32_t>(tokens / documents));
  for (int64_t i = 0; i < documents; ++i) put(int64_t{2 * i * (tokens / documents)});
  for (int64_t i = 0; i <= documents; ++i) put(i);
}

TEST(Memory, OpeningABillionTokensTakesMemoryForDocumentsOnly) {
  const TemporaryFolder folder;
  constexpr int64_t tokens = 1'000'000'000, documents = 1000;
  write_sparse_corpus(folder / "billion", tokens, documents);
  data::TextConfig config;
  config.train = {folder / "billion"};
  config.reset_at_documents = true;
  const int64_t before = observe::resident_bytes();
  const Loader loader(config, 2048, 50'257, 1);
  EXPECT_GT(loader.samples(Split::train), uint64_t{400'000});
  // Few pages of the 2 GB are read: 65 places where tokens are looked at, each with the 64 KiB around it that a page
  // fault maps at most.
  EXPECT_LT(observe::resident_bytes() - before, 16 * mebibyte);
}

// Bytes of a file that the system keeps in memory.
int64_t cached_bytes(const std::filesystem::path& path) {
  const auto size = static_cast<size_t>(std::filesystem::file_size(path));
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  std::vector<unsigned char> pages((size + page - 1) / page);
  EXPECT_EQ(::mincore(mapped, size, pages.data()), 0);
  ::munmap(mapped, size);
  ::close(file);
  const auto cached = std::count_if(pages.begin(), pages.end(), [](unsigned char state) { return (state & 1) != 0; });
  return static_cast<int64_t>(page) * cached;
}

void forget_cached(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

TEST(Memory, OpeningAColdCorpusReadsWhatItLooksAt) {
  const TemporaryFolder folder;
  constexpr int64_t tokens = 16'000'000;
  write_sparse_corpus(folder / "cold", tokens, 1000);
  std::ofstream(bin_path(folder / "cold"), std::ios::binary) << std::string(static_cast<size_t>(2 * tokens), '\1');
  forget_cached(bin_path(folder / "cold"));
  if (cached_bytes(bin_path(folder / "cold")) > mebibyte) GTEST_SKIP() << "this file system keeps files in memory";
  data::TextConfig config;
  config.train = {folder / "cold"};
  const Loader loader(config, 2048, 50'257, 1);
  loader.batch(Split::train, 0, 8);
  // 65 places of a KiB and 8 windows of 4 KiB; the system would read on for 128 KiB to 8 MiB behind each of them.
  EXPECT_LT(cached_bytes(bin_path(folder / "cold")), mebibyte);
}

}  // namespace
}  // namespace terrace::data
