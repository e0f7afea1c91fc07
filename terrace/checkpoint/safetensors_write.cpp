// Writes safetensors files: first the header, which follows from the shapes, then the tensors, which are hashed as
// well.
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/checkpoint/safetensors.h"

namespace terrace::checkpoint {
namespace {

// A file that hashes the bytes before it writes them, so that a fault between here and the disk is found by the reader.
class HashedFile {
 public:
  explicit HashedFile(const std::filesystem::path& path) : file_(path), hash_(XXH3_createState(), XXH3_freeState) {
    XXH3_64bits_reset(hash_.get());
  }

  void write(const void* data, size_t bytes) {
    // A piece stays in the cache between hashing and writing.
    constexpr size_t piece_bytes = size_t{1} << 20;
    const char* begin = static_cast<const char*>(data);
    for (size_t done = 0; done < bytes; done += piece_bytes) {
      const size_t piece = std::min(piece_bytes, bytes - done);
      XXH3_64bits_update(hash_.get(), begin + done, piece);
      file_.write(begin + done, piece);
    }
  }

  WrittenFile commit() {
    file_.commit();
    return {file_.written(), fmt::format("{:016x}", XXH3_64bits_digest(hash_.get()))};
  }

 private:
  AtomicFile file_;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
};

std::string header_text(const std::vector<const std::pair<std::string, at::Tensor>*>& ordered,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto* named : ordered) {
    const auto& [name, tensor] = *named;
    TERRACE_CHECK(!name.empty() && name != "__metadata__" && !header.contains(name), "tensor name '{}'", name);
    header[name] = {{"dtype", safetensors_type(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& path,
                              const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<const std::pair<std::string, at::Tensor>*> ordered;
  for (const auto& named : tensors) ordered.push_back(&named);
  std::ranges::stable_sort(ordered, std::greater<>(), [](const auto* named) { return named->second.element_size(); });

  HashedFile file(path);
  const std::string header = header_text(ordered, metadata);
  const uint64_t length = header.size();
  file.write(&length, sizeof(length));
  file.write(header.data(), header.size());
  for (const auto* named : ordered) {
    const at::Tensor tensor = named->second.detach().to(at::kCPU).contiguous();
    file.write(tensor.const_data_ptr(), tensor.nbytes());
  }
  return file.commit();
}

}  // namespace terrace::checkpoint
