// Reads headers by the grammar of "The NetCDF Classic Format Specification" (NetCDF User's Guide, appendix B).
#include "terrace/data/fields/formats/classic_size.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace terrace::data {
namespace {

constexpr uint64_t padding = 4;  // names, attributes and fields begin at multiples of so many bytes

uint64_t padded(uint64_t bytes) { return (bytes + padding - 1) / padding * padding; }

// Thrown where the header goes on behind the end of the file.
struct HeaderCutOff {};

class HeaderReader {
 public:
  explicit HeaderReader(std::span<const std::byte> file) : file_(file) {}

  std::optional<uint64_t> size() {
    if (file_.size() < 4 || file_[0] != std::byte{'C'} || file_[1] != std::byte{'D'} || file_[2] != std::byte{'F'}) {
      return std::nullopt;
    }
    version_ = static_cast<int>(file_[3]);
    if (version_ != 1 && version_ != 2 && version_ != 5) return std::nullopt;
    at_ = 4;
    const uint64_t records = count();
    const bool is_open = records == (version_ == 5 ? ~uint64_t{0} : uint64_t{0xFFFFFFFF});
    std::vector<uint64_t> dimensions;
    for (uint64_t left = list(); left > 0; --left) {
      skip_name();
      dimensions.push_back(count());
    }
    skip_attributes();
    for (uint64_t left = list(); left > 0; --left) add_variable(dimensions);
    uint64_t end = at_;
    uint64_t record_bytes = 0;
    for (const Variable& variable : variables_) {
      if (variable.has_records) record_bytes += records_ == 1 ? variable.bytes : padded(variable.bytes);
    }
    for (const Variable& variable : variables_) {
      if (variable.has_records && records == 0) continue;
      end = std::max(end, variable.begin + variable.bytes + (variable.has_records ? (records - 1) * record_bytes : 0));
    }
    return is_open && records_ > 0 ? std::nullopt : std::optional(end);
  }

 private:
  struct Variable {
    uint64_t begin = 0, bytes = 0;  // of one record
    bool has_records = false;
  };

  uint64_t number(size_t bytes) {
    if (file_.size() - at_ < bytes) throw HeaderCutOff();
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint64_t>(file_[at_ + i]);
    at_ += bytes;
    return value;
  }

  uint64_t count() { return number(version_ == 5 ? 8 : 4); }

  // Returns the number of entries of a list, which begins with a tag.
  uint64_t list() {
    number(4);
    return count();
  }

  void skip(uint64_t bytes) {
    if (file_.size() - at_ < bytes) throw HeaderCutOff();
    at_ += bytes;
  }

  void skip_name() { skip(padded(std::min<uint64_t>(count(), file_.size()))); }

  uint64_t type_bytes() {
    constexpr std::array<uint64_t, 12> bytes = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
    const uint64_t type = number(4);
    return type < bytes.size() ? bytes[type] : 0;
  }

  void skip_attributes() {
    for (uint64_t left = list(); left > 0; --left) {
      skip_name();
      const uint64_t bytes = type_bytes();
      skip(padded(bytes * std::min<uint64_t>(count(), file_.size())));
    }
  }

  void add_variable(const std::vector<uint64_t>& dimensions) {
    skip_name();
    Variable variable;
    uint64_t entries = 1;
    const uint64_t rank = count();
    for (uint64_t i = 0; i < rank; ++i) {
      const uint64_t dimension = count();
      const uint64_t length = dimension < dimensions.size() ? dimensions[dimension] : 1;
      // The dimension of records has no length of its own.
      if (i == 0 && length == 0) {
        variable.has_records = true;
      } else {
        entries *= length;
      }
    }
    skip_attributes();
    variable.bytes = entries * type_bytes();
    count();
    variable.begin = number(version_ == 1 ? 4 : 8);
    records_ += variable.has_records ? 1 : 0;
    variables_.push_back(variable);
  }

  std::span<const std::byte> file_;
  uint64_t at_ = 0;
  int version_ = 0;
  size_t records_ = 0;  // variables that have records
  std::vector<Variable> variables_;
};

}  // namespace

std::optional<uint64_t> size_of_classic_netcdf(std::span<const std::byte> file) {
  try {
    return HeaderReader(file).size();
  } catch (const HeaderCutOff&) {
    return std::numeric_limits<uint64_t>::max();
  }
}

}  // namespace terrace::data
