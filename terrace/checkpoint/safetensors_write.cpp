// Writes safetensors files: first the header, which follows from the shapes, then the tensors, which are hashed as
// well.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/checkpoint/safetensors.h"

namespace terrace::checkpoint {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Hashes bytes and then writes them, so that a fault between here and the disk is found by the reader.
class Hashed {
 public:
  Hashed() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }

  template <typename Write>
  void pass_on(std::span<const std::byte> bytes, const Write& write) {
    // A piece stays in the cache between hashing and writing.
    constexpr size_t piece_bytes = size_t{1} << 18;
    for (size_t done = 0; done < bytes.size(); done += piece_bytes) {
      const auto piece = bytes.subspan(done, std::min(piece_bytes, bytes.size() - done));
      XXH3_64bits_update(state_.get(), piece.data(), piece.size());
      write(piece);
    }
  }

  std::string checksum() const { return fmt::format("{:016x}", XXH3_64bits_digest(state_.get())); }

 private:
  std::unique_ptr<XXH3_state_t, FreeState> state_;
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

SafetensorsContents::SafetensorsContents(const NamedValues& tensors,
                                         const std::map<std::string, std::string>& metadata) {
  for (const auto& named : tensors) ordered_.push_back(&named);
  std::ranges::stable_sort(ordered_, std::greater<>(), [](const auto* named) { return named->second.element_size(); });
  const std::string text = header_text(ordered_, metadata);
  const uint64_t length = text.size();
  header_.assign(reinterpret_cast<const char*>(&length), sizeof(length)).append(text);
  bytes_ = header_.size();
  for (const auto* named : ordered_) bytes_ += named->second.nbytes();
}

void SafetensorsContents::each_range(const std::function<void(std::span<const std::byte>)>& take) const {
  take(std::as_bytes(std::span(header_)));
  for (const auto* named : ordered_) {
    const at::Tensor tensor = named->second.detach().to(at::kCPU).contiguous();
    take({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
}

void write_safetensors(std::span<std::byte> to, const SafetensorsContents& contents) {
  TERRACE_CHECK(to.size() == contents.bytes(), "{} bytes for {}", to.size(), contents.bytes());
  constexpr size_t piece_bytes = size_t{1} << 20;
  std::byte* at = to.data();
  contents.each_range([&](std::span<const std::byte> range) {
    const auto pieces = static_cast<int64_t>((range.size() + piece_bytes - 1) / piece_bytes);
    at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
      const size_t from = static_cast<size_t>(begin) * piece_bytes;
      const size_t bytes = std::min(static_cast<size_t>(end) * piece_bytes, range.size()) - from;
      std::memcpy(at + from, range.data() + from, bytes);
    });
    at += range.size();
  });
}

WrittenFile write_safetensors(const std::filesystem::path& path, const NamedValues& tensors,
                              const std::map<std::string, std::string>& metadata) {
  AtomicFile file(path);
  Hashed hashed;
  SafetensorsContents(tensors, metadata).each_range([&](std::span<const std::byte> range) {
    hashed.pass_on(range, [&](std::span<const std::byte> piece) { file.write(piece.data(), piece.size()); });
  });
  file.commit();
  return {file.written(), hashed.checksum()};
}

}  // namespace terrace::checkpoint
