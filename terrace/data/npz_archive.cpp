// Reads the directory of a zip archive (APPNOTE 6.3, with the fields of Zip64) and the headers of .npy files.
#include "terrace/data/npz_archive.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

static_assert(std::endian::native == std::endian::little, "zip and npy are read as the processor has its numbers");

constexpr uint32_t end_mark = 0x06054b50, end_mark_64 = 0x06064b50, locator_mark_64 = 0x07064b50;
constexpr uint32_t entry_mark = 0x02014b50, local_mark = 0x04034b50;
constexpr size_t end_record_bytes = 22, locator_bytes = 20, entry_bytes = 46, local_bytes = 30;
constexpr uint64_t most_header_bytes = 65536;  // of a .npy file
constexpr uint64_t most_numbers = uint64_t{1} << 56;
constexpr uint64_t most_deflated = 1100;  // bytes that a byte of deflate's output may become, with a margin: 1032

struct NpyTypeFacts {
  std::string_view word;
  NpyType type;
  uint64_t bytes;
};
constexpr std::array<NpyTypeFacts, 11> npy_types = {{{"<f4", NpyType::fp32, 4},
                                                     {"<f8", NpyType::fp64, 8},
                                                     {"|b1", NpyType::boolean, 1},
                                                     {"|i1", NpyType::int8, 1},
                                                     {"|u1", NpyType::uint8, 1},
                                                     {"<i2", NpyType::int16, 2},
                                                     {"<u2", NpyType::uint16, 2},
                                                     {"<i4", NpyType::int32, 4},
                                                     {"<u4", NpyType::uint32, 4},
                                                     {"<i8", NpyType::int64, 8},
                                                     {"<u8", NpyType::uint64, 8}}};

uint64_t bytes_of_npy(NpyType type) { return std::ranges::find(npy_types, type, &NpyTypeFacts::type)->bytes; }

template <typename Stored, typename Value>
void copy_numbers(std::span<const std::byte> bytes, uint64_t first, std::span<Value> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Stored number;
    std::memcpy(&number, bytes.data() + (first + i) * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Value>(number);
  }
}

template <typename Value>
void read_numbers(const NpyArray& array, uint64_t first, std::span<Value> values) {
  switch (array.type) {
    case NpyType::fp32:
      return copy_numbers<float>(array.bytes, first, values);
    case NpyType::fp64:
      return copy_numbers<double>(array.bytes, first, values);
    case NpyType::boolean:
    case NpyType::uint8:
      return copy_numbers<uint8_t>(array.bytes, first, values);
    case NpyType::int8:
      return copy_numbers<int8_t>(array.bytes, first, values);
    case NpyType::int16:
      return copy_numbers<int16_t>(array.bytes, first, values);
    case NpyType::uint16:
      return copy_numbers<uint16_t>(array.bytes, first, values);
    case NpyType::int32:
      return copy_numbers<int32_t>(array.bytes, first, values);
    case NpyType::uint32:
      return copy_numbers<uint32_t>(array.bytes, first, values);
    case NpyType::int64:
      return copy_numbers<int64_t>(array.bytes, first, values);
    case NpyType::uint64:
      return copy_numbers<uint64_t>(array.bytes, first, values);
  }
}

[[noreturn]] void throw_damaged(const std::string& name, const char* what) {
  throw UserError::of("{} {}; it may be truncated or damaged, so copy it again", name, what);
}

// Reads numbers at places of a file.
class ZipBytes {
 public:
  ZipBytes(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  template <typename Number>
  Number at(uint64_t offset) const {
    Number number = 0;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(Number))
      throw_damaged(name_, "is no whole zip archive");
    std::memcpy(&number, bytes_.data() + offset, sizeof(Number));
    return number;
  }

  std::string_view text(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) throw_damaged(name_, "is no whole zip archive");
    return {reinterpret_cast<const char*>(bytes_.data() + offset), size};
  }

  uint64_t size() const { return bytes_.size(); }
  const std::string& name() const { return name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
};

struct Directory {
  uint64_t offset = 0, entries = 0;
};

Directory directory_of(const ZipBytes& file) {
  // A comment of up to 64 KiB may follow.
  const uint64_t last = file.size() < end_record_bytes ? 0 : file.size() - end_record_bytes;
  for (uint64_t at = last; file.size() >= end_record_bytes && last - at <= 65535; --at) {
    if (file.at<uint32_t>(at) == end_mark) {
      const Directory directory{file.at<uint32_t>(at + 16), file.at<uint16_t>(at + 10)};
      const bool is_large = directory.offset == 0xFFFFFFFF || directory.entries == 0xFFFF;
      if (!is_large || at < locator_bytes || file.at<uint32_t>(at - locator_bytes) != locator_mark_64) return directory;
      const auto large = file.at<uint64_t>(at - locator_bytes + 8);
      if (file.at<uint32_t>(large) != end_mark_64) break;
      return {file.at<uint64_t>(large + 48), file.at<uint64_t>(large + 32)};
    }
    if (at == 0) break;
  }
  throw_damaged(file.name(), "is no whole zip archive");
}

// Replaces the sizes of the entry by those that its field of Zip64 has.
void take_large_sizes(const ZipBytes& file, uint64_t extra, uint64_t extra_bytes, NpzArchive::Entry& entry) {
  const uint64_t end = extra + extra_bytes;
  while (extra + 4 <= end) {
    const uint64_t next = extra + 4 + file.at<uint16_t>(extra + 2);
    if (file.at<uint16_t>(extra) == 1) {
      uint64_t at = extra + 4;
      for (uint64_t* value : {&entry.bytes, &entry.packed_bytes, &entry.offset}) {
        if (*value != 0xFFFFFFFF) continue;
        *value = file.at<uint64_t>(at);
        at += 8;
      }
    }
    extra = next;
  }
}

// Returns the value behind 'key': in the dictionary of a header.
std::string_view header_value(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}'", key));
  const size_t colon = at == std::string_view::npos ? at : header.find(':', at);
  if (colon == std::string_view::npos) return "";
  std::string_view value = header.substr(colon + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

std::vector<uint64_t> shape_of(std::string_view text, const std::string& name) {
  std::vector<uint64_t> shape;
  if (!text.starts_with('(')) throw_damaged(name, "has no shape");
  text.remove_prefix(1);
  while (!text.empty() && !text.starts_with(')')) {
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size > (uint64_t{1} << 40)) throw_damaged(name, "has no shape");
    shape.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    while (text.starts_with(',') || text.starts_with(' ')) text.remove_prefix(1);
  }
  return shape;
}

// Returns the array without numbers, and the bytes of its header.
std::pair<NpyArray, uint64_t> npy_header(std::span<const std::byte> file, const std::string& name) {
  const ZipBytes bytes(file, name);
  if (file.size() < 10 || bytes.text(0, 6) != "\x93NUMPY") throw_damaged(name, "is no .npy file");
  const bool is_short = file[6] == std::byte{1};
  const uint64_t begin = is_short ? 10 : 12, length = is_short ? bytes.at<uint16_t>(8) : bytes.at<uint32_t>(8);
  const std::string_view header = bytes.text(begin, length);
  NpyArray array{.shape = shape_of(header_value(header, "shape"), name)};
  const std::string_view described = header_value(header, "descr");
  const auto type = std::ranges::find_if(npy_types, [&](const NpyTypeFacts& one) {
    return described.starts_with("'") && described.substr(1).starts_with(one.word) &&
           described.substr(4).starts_with("'");
  });
  if (type == npy_types.end()) {
    throw UserError::of("{} has numbers of type {}; <f4, <f8, logicals and little-endian integers are read", name,
                        described.substr(0, described.find(',')));
  }
  array.type = type->type;
  uint64_t numbers = 1;
  for (const uint64_t size : array.shape) {
    if (size > 0 && numbers > most_numbers / size) throw_damaged(name, "has an impossible shape");
    numbers *= size;
  }
  if (!header_value(header, "fortran_order").starts_with("False")) {
    throw UserError::of("{} is in Fortran's order; save it with numpy.ascontiguousarray()", name);
  }
  return {array, begin + length};
}

}  // namespace

uint64_t NpyArray::numbers() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

void NpyArray::read(uint64_t first, std::span<float> values) const { read_numbers(*this, first, values); }

void NpyArray::read(uint64_t first, std::span<double> values) const { read_numbers(*this, first, values); }

NpyArray parse_npy(std::span<const std::byte> file, const std::string& name) {
  auto [array, begin] = npy_header(file, name);
  array.bytes = file.subspan(begin);
  if (array.bytes.size() < array.numbers() * bytes_of_npy(array.type)) {
    throw_damaged(name, "has fewer numbers than its shape says");
  }
  return array;
}

NpzArchive::NpzArchive(const std::filesystem::path& path) : file_(path), bytes_(file_.bytes()), name_(path.string()) {
  read_directory();
}

NpzArchive::NpzArchive(std::span<const std::byte> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {
  read_directory();
}

void NpzArchive::read_directory() {
  const ZipBytes file(bytes_, name_);
  const Directory directory = directory_of(file);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (file.at<uint32_t>(at) != entry_mark) throw_damaged(name_, "is no whole zip archive");
    const uint64_t name_bytes = file.at<uint16_t>(at + 28), extra_bytes = file.at<uint16_t>(at + 30);
    Entry entry{.name = std::string(file.text(at + entry_bytes, name_bytes)),
                .method = file.at<uint16_t>(at + 10),
                .checksum = file.at<uint32_t>(at + 16),
                .offset = file.at<uint32_t>(at + 42),
                .packed_bytes = file.at<uint32_t>(at + 20),
                .bytes = file.at<uint32_t>(at + 24)};
    take_large_sizes(file, at + entry_bytes + name_bytes, extra_bytes, entry);
    at += entry_bytes + name_bytes + extra_bytes + file.at<uint16_t>(at + 32);
    if (!entry.name.ends_with(".npy")) continue;
    entry.name.resize(entry.name.size() - 4);
    if (std::ranges::any_of(entry.name, [](char letter) { return static_cast<unsigned char>(letter) < ' '; })) {
      throw_damaged(name_, "has an array whose name is no text");
    }
    if (entry.method != 0 && entry.method != 8) {
      throw UserError::of("{} is packed by the method {} of zip; numpy.savez and numpy.savez_compressed are read",
                          name_of(entry), entry.method);
    }
    entries_.push_back(std::move(entry));
  }
}

std::span<const std::byte> NpzArchive::packed(const Entry& entry) const {
  const ZipBytes file(bytes_, name_of(entry));
  if (file.at<uint32_t>(entry.offset) != local_mark) throw_damaged(name_of(entry), "has no header");
  const uint64_t begin =
      entry.offset + local_bytes + file.at<uint16_t>(entry.offset + 26) + file.at<uint16_t>(entry.offset + 28);
  file.text(begin, entry.packed_bytes);
  return bytes_.subspan(begin, entry.packed_bytes);
}

std::vector<std::byte> NpzArchive::inflated(const Entry& entry, uint64_t at_most) const {
  const std::span<const std::byte> input = packed(entry);
  if (entry.bytes / most_deflated > input.size()) throw_damaged(name_of(entry), "has an impossible size");
  std::vector<std::byte> output(std::min(entry.bytes, at_most));
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw_damaged(name_of(entry), "cannot be unpacked");
  uint64_t read = 0, written = 0;
  int status = Z_OK;
  // zlib counts in 32 bits.
  constexpr uint64_t most = uint64_t{1} << 30;
  while (status == Z_OK && written < output.size()) {
    const uint64_t in = std::min(most, input.size() - read), out = std::min(most, output.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data() + read));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(output.data() + written);
    stream.avail_out = static_cast<uInt>(out);
    status = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  inflateEnd(&stream);
  if (written < output.size()) throw_damaged(name_of(entry), "cannot be unpacked");
  return output;
}

NpyArray NpzArchive::header(const Entry& entry) const {
  if (entry.method == 0) return npy_header(packed(entry), name_of(entry)).first;
  return npy_header(inflated(entry, most_header_bytes), name_of(entry)).first;
}

NpyArray NpzArchive::array(const Entry& entry, std::vector<std::byte>& unpacked) const {
  std::span<const std::byte> bytes = packed(entry);
  if (entry.method != 0) {
    unpacked = inflated(entry, entry.bytes);
    bytes = unpacked;
  }
  if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != entry.checksum) {
    throw_damaged(name_of(entry), "has a wrong checksum");
  }
  return parse_npy(bytes, name_of(entry));
}

}  // namespace terrace::data
