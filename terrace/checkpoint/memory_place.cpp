// Maps files at their first use, and writes into their memory.
#include "terrace/checkpoint/memory_place.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"

namespace terrace::checkpoint {

class MemoryPlace::Sink : public FileSink {
 public:
  Sink(MemoryPlace& place, const std::filesystem::path& folder) : place_(place), folder_(folder) {}

  FileRecord write(const std::string& name, std::span<const std::byte> bytes) override {
    std::ranges::copy(bytes, place_.file(folder_, name, bytes.size()).bytes.begin());
    return {name, bytes.size(), ""};
  }

  FileRecord write(const std::string& name, const NamedValues& tensors,
                   const std::map<std::string, std::string>& metadata) override {
    const SafetensorsContents contents(tensors, metadata);
    write_safetensors(place_.file(folder_, name, contents.bytes()).bytes, contents);
    return {name, contents.bytes(), ""};
  }

 private:
  MemoryPlace& place_;
  const std::filesystem::path& folder_;
};

FileMemory MemoryPlace::file(const std::filesystem::path& folder, const std::string& name, size_t bytes) {
  std::shared_ptr<MappedOutput>& known = files_[name];
  if (!known || known->bytes().size() != bytes) {
    known.reset();
    known = std::make_shared<MappedOutput>(folder / name, bytes);
  }
  return {.bytes = known->bytes(), .owner = known};
}

WrittenFiles MemoryPlace::write(const std::filesystem::path& folder, const State& state, const SavingRanks& ranks) {
  Sink sink(*this, folder);
  return write_files(sink, state, ranks);
}

FileMemory MemoryPlace::receive(const std::filesystem::path& folder, const std::string& name, size_t bytes) {
  if (std::filesystem::path(name).filename() != name || name.starts_with('.')) {
    throw UserError::of("another rank sends a file of the name {}, which is no plain name", name);
  }
  return file(folder, name, bytes);
}

std::map<std::string, FileMemory> MemoryPlace::with_checksums(WrittenFiles& files) const {
  std::map<std::string, FileMemory> memory;
  files.each([&](FileRecord& record) {
    const std::shared_ptr<MappedOutput>& file = files_.at(record.name);
    record.checksum = checksum(file->bytes());
    memory.emplace(record.name, FileMemory{.bytes = file->bytes(), .owner = file});
  });
  return memory;
}

}  // namespace terrace::checkpoint
