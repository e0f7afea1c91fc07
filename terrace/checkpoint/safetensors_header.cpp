// Reads the header of safetensors files. It is untrusted input, so every number in it is checked.
#include "terrace/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files hold little-endian numbers");

// The reference implementation refuses longer headers.
constexpr uint64_t header_limit_bytes = 100'000'000;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 11> type_words = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"U16", at::kUInt16},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

// Unlike terrace::Json this type has sorted keys: their order has no meaning here, and a hostile header with a million
// names must not cause a million searches of a list.
using HeaderJson = nlohmann::json;

template <typename... Args>
UserError damaged(std::string_view file_name, fmt::format_string<Args...> format, Args&&... args) {
  return UserError::of("{} is not a valid safetensors file: {}", file_name,
                       fmt::format(format, std::forward<Args>(args)...));
}

HeaderJson header_json(std::span<const std::byte> file, std::string_view file_name) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    throw damaged(file_name, "it has {} bytes, and the header's length alone takes 8", file.size());
  }
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > file.size() - sizeof(length)) {
    throw damaged(file_name, "the header should have {} bytes, and the file has {} after the first 8", length,
                  file.size() - sizeof(length));
  }
  if (length > header_limit_bytes) {
    throw damaged(file_name, "the header has {} bytes, more than the format's {}", length, header_limit_bytes);
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + sizeof(length);
  try {
    HeaderJson json = parse_json_as<HeaderJson>({text, length});
    if (!json.is_object()) throw damaged(file_name, "the header is not a JSON object");
    return json;
  } catch (const HeaderJson::exception& error) {
    throw damaged(file_name, "the header is not JSON: {}", error.what());
  }
}

std::map<std::string, std::string> parse_metadata(const HeaderJson& json, std::string_view file_name) {
  std::map<std::string, std::string> metadata;
  if (json.is_null()) return metadata;  // as the package of Python reads it
  if (!json.is_object()) throw damaged(file_name, "__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) throw damaged(file_name, "__metadata__ '{}' is not a string", key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

std::vector<uint64_t> parse_numbers(const HeaderJson& tensor, const char* key, const std::string& name,
                                    std::string_view file_name) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array()) throw damaged(file_name, "tensor '{}' has no {}", name, key);
  std::vector<uint64_t> numbers;
  for (const HeaderJson& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      throw damaged(file_name, "tensor '{}' has in its {} something other than whole numbers from 0 to 2^63 - 1", name,
                    key);
    }
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

uint64_t size_bytes(const SafetensorsEntry& entry, std::string_view file_name) {
  uint64_t bytes = c10::elementSize(entry.type);
  for (int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      throw damaged(file_name, "tensor '{}' of shape [{}] has more than 2^64 bytes", entry.name,
                    fmt::join(entry.shape, ", "));
    }
  }
  return bytes;
}

// The offsets of the result are relative to the end of the header.
SafetensorsEntry parse_entry(const std::string& name, const HeaderJson& json, uint64_t data_bytes,
                             std::string_view file_name) {
  if (!json.is_object()) throw damaged(file_name, "tensor '{}' is not described by an object", name);
  SafetensorsEntry entry;
  entry.name = name;
  const auto type = json.find("dtype");
  if (type == json.end() || !type->is_string()) throw damaged(file_name, "tensor '{}' has no dtype", name);
  entry.type = scalar_type(type->get<std::string>());
  if (entry.type == at::ScalarType::Undefined) {
    throw damaged(file_name,
                  "tensor '{}' has dtype '{}', which is not one of F64, F32, F16, BF16, I64, I32, I16, U16, "
                  "I8, U8, BOOL",
                  name, type->get<std::string>());
  }
  for (uint64_t extent : parse_numbers(json, "shape", name, file_name)) {
    entry.shape.push_back(static_cast<int64_t>(extent));
  }
  const std::vector<uint64_t> offsets = parse_numbers(json, "data_offsets", name, file_name);
  if (offsets.size() != 2) throw damaged(file_name, "tensor '{}' has {} data_offsets, not 2", name, offsets.size());
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.begin > entry.end || entry.end > data_bytes) {
    throw damaged(file_name,
                  "tensor '{}' lies at bytes {} to {} of {}: the file is cut short, or the offsets are wrong", name,
                  entry.begin, entry.end, data_bytes);
  }
  if (const uint64_t expected = size_bytes(entry, file_name); expected != entry.end - entry.begin) {
    throw damaged(file_name, "tensor '{}' of shape [{}] and type {} takes {} bytes, and its offsets give {}", name,
                  fmt::join(entry.shape, ", "), safetensors_type(entry.type), expected, entry.end - entry.begin);
  }
  return entry;
}

// Checks that every byte after the header belongs to exactly one tensor.
void check_coverage(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes, std::string_view file_name) {
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != covered) {
      throw damaged(file_name, "tensor '{}' starts at byte {} of the data, and the one before it ends at {}",
                    entry.name, entry.begin, covered);
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    throw damaged(file_name, "its tensors take {} bytes, and the file has {} after the header", covered, data_bytes);
  }
}

}  // namespace

std::string_view safetensors_type(at::ScalarType type) {
  const auto found = std::ranges::find(type_words, type, &std::pair<std::string_view, at::ScalarType>::second);
  TERRACE_CHECK(found != type_words.end(), "safetensors has no type for {}", c10::toString(type));
  return found->first;
}

at::ScalarType scalar_type(std::string_view word) {
  const auto found = std::ranges::find(type_words, word, &std::pair<std::string_view, at::ScalarType>::first);
  return found == type_words.end() ? at::ScalarType::Undefined : found->second;
}

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &SafetensorsEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view file_name) {
  const HeaderJson json = header_json(file, file_name);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const uint64_t data_start = sizeof(length) + length;
  const uint64_t data_bytes = file.size() - data_start;

  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(value, file_name);
    } else {
      header.entries.push_back(parse_entry(name, value, data_bytes, file_name));
    }
  }
  std::ranges::sort(header.entries, {}, [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  check_coverage(header.entries, data_bytes, file_name);
  for (SafetensorsEntry& entry : header.entries) {
    entry.begin += data_start;
    entry.end += data_start;
  }
  return header;
}

}  // namespace terrace::checkpoint
