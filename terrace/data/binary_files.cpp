// Looks for the signatures of common formats and for bytes that are 0, which no text in UTF-8 has.
#include "terrace/data/binary_files.h"

#include <array>
#include <fstream>
#include <string_view>

#include "terrace/data/byte_source.h"

namespace terrace::data {
namespace {

struct Signature {
  std::string_view bytes, what;
};

constexpr std::array signatures = {
    Signature{"\x89PNG\r\n", "a PNG picture"},
    Signature{"\xFF\xD8\xFF", "a JPEG picture"},
    Signature{"GIF8", "a GIF picture"},
    Signature{"%PDF-", "a PDF document"},
    Signature{"\x7F\x45LF", "a program"},
    Signature{"\xFF\xFE", "text in UTF-16; convert it to UTF-8"},
    Signature{"\xFE\xFF", "text in UTF-16; convert it to UTF-8"},
};

// Returns the first bytes of the file, decompressed.
std::string first_bytes(const std::filesystem::path& path) {
  constexpr size_t looked_at = 8192;
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  std::string bytes(looked_at, '\0');
  size_t size = 0;
  while (size < looked_at) {
    const size_t got = source->read(bytes.data() + size, looked_at - size);
    if (got == 0) break;
    size += got;
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

std::string why_not_text(const std::filesystem::path& path) {
  const std::string bytes = first_bytes(path);
  for (const Signature& signature : signatures) {
    if (bytes.starts_with(signature.bytes)) return std::string(signature.what);
  }
  return bytes.find('\0') == std::string::npos ? "" : "it has bytes that are 0";
}

bool is_parquet(const std::filesystem::path& path) {
  std::array<char, 4> bytes{};
  std::ifstream(path, std::ios::binary).read(bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), bytes.size());
  return begin == "PAR1" || begin == "PARE";
}

}  // namespace terrace::data
