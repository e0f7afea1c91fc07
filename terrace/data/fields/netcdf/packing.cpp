// Reads the attributes that say how values are stored, and unpacks values by them.
#include "terrace/data/fields/netcdf/packing.h"

#include <fmt/format.h>
#include <netcdf.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/data/fields/formats/zarr_store.h"
#include "terrace/data/fields/netcdf/attribute_numbers.h"

namespace terrace::data {
namespace {

// Returns the number that the library fills a variable with where nothing was written. Bytes have none: each of theirs
// may be a value.
std::optional<AttributeNumber> default_fill(int type) {
  switch (type) {
    case NC_FLOAT:
      return static_cast<double>(NC_FILL_FLOAT);
    case NC_DOUBLE:
      return NC_FILL_DOUBLE;
    case NC_SHORT:
      return int64_t{NC_FILL_SHORT};
    case NC_USHORT:
      return int64_t{NC_FILL_USHORT};
    case NC_INT:
      return int64_t{NC_FILL_INT};
    case NC_UINT:
      return int64_t{NC_FILL_UINT};
    case NC_INT64:
      return int64_t{NC_FILL_INT64};
    case NC_UINT64:
      return uint64_t{NC_FILL_UINT64};
    default:
      return std::nullopt;
  }
}

// Returns the place of a type among all types from narrow to wide.
int width_of(int type) {
  switch (type) {
    case NC_DOUBLE:
      return 5;
    case NC_FLOAT:
      return 4;
    case NC_INT64:
    case NC_UINT64:
      return 3;
    case NC_INT:
    case NC_UINT:
      return 2;
    case NC_SHORT:
    case NC_USHORT:
      return 1;
    default:
      return 0;
  }
}

// Returns the type of the stored numbers, which _Unsigned changes into the one of the same size with or without a sign.
int type_after_unsigned(const NetcdfFile& file, int variable) {
  std::string word = file.text(variable, "_Unsigned");
  if (file.is_zarr()) {
    const Json json = zarr_attribute(file.path() / file.name(variable), "_Unsigned");
    word = json.is_string() ? json.get<std::string>() : json.dump();
  }
  word = lower_case(word);
  const int type = file.type(variable);
  constexpr std::array<std::pair<int, int>, 4> pairs = {
      {{NC_BYTE, NC_UBYTE}, {NC_SHORT, NC_USHORT}, {NC_INT, NC_UINT}, {NC_INT64, NC_UINT64}}};
  for (const auto& [with_sign, without] : pairs) {
    if (type == with_sign && word == "true") return without;
    if (type == without && word == "false") return with_sign;
  }
  return type;
}

bool is_less(const AttributeNumber& a, const AttributeNumber& b) {
  return std::visit(
      [](auto x, auto y) {
        if constexpr (std::is_integral_v<decltype(x)> && std::is_integral_v<decltype(y)>) {
          return std::cmp_less(x, y);
        } else {
          return static_cast<double>(x) < static_cast<double>(y);
        }
      },
      a, b);
}

template <typename Stored>
AttributeNumber limit(Stored value) {
  if constexpr (std::is_signed_v<Stored>) {
    return static_cast<int64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

// Reads numbers of attributes as numbers of the type Stored. `changes_sign` says that the type in the file, which
// attributes have too, has the other sign than Stored.
template <typename Stored>
class StoredNumbers {
 public:
  explicit StoredNumbers(bool changes_sign) : changes_sign_(changes_sign) {}

  // Returns the stored number that an attribute means; none where no stored number is equal to it.
  std::optional<Stored> exactly(const AttributeNumber& number) const {
    if constexpr (std::is_floating_point_v<Stored>) {
      return static_cast<Stored>(as_double(number));
    } else {
      const AttributeNumber whole = integer_of(number, 0);
      const bool is_whole = as_double(whole) == as_double(number);
      return is_whole && is_stored(whole) ? std::optional(cast(whole)) : std::nullopt;
    }
  }

  // Return the ends of a range; a number beyond those that can be stored becomes the nearest that can.
  Stored least(const AttributeNumber& number) const { return end(number, 1); }
  Stored most(const AttributeNumber& number) const { return end(number, -1); }

 private:
  Stored end(const AttributeNumber& number, int rounding) const {
    if constexpr (std::is_floating_point_v<Stored>) {
      return static_cast<Stored>(as_double(number));
    } else {
      const AttributeNumber whole = integer_of(number, rounding);
      if (is_stored(whole)) return cast(whole);
      constexpr Stored lowest = std::numeric_limits<Stored>::lowest(), highest = std::numeric_limits<Stored>::max();
      return is_less(whole, limit(lowest)) ? lowest : highest;
    }
  }

  // Rounds a number up (1), down (-1) or to the nearest integer (0).
  static AttributeNumber integer_of(const AttributeNumber& number, int rounding) {
    if (!std::holds_alternative<double>(number)) return number;
    const double value = std::get<double>(number);
    const double whole = rounding > 0 ? std::ceil(value) : rounding < 0 ? std::floor(value) : std::round(value);
    if (whole >= 0x1p63 && whole < 0x1p64) return static_cast<uint64_t>(whole);
    if (whole >= -0x1p63 && whole < 0x1p63) return static_cast<int64_t>(whole);
    return whole;
  }

  bool is_stored(const AttributeNumber& whole) const {
    return !std::holds_alternative<double>(whole) && (fits<Stored>(whole) || (changes_sign_ && fits<Other>(whole)));
  }

  using Other = typename std::conditional_t<
      std::is_same_v<Stored, double> || std::is_same_v<Stored, float>, std::type_identity<Stored>,
      std::conditional_t<std::is_signed_v<Stored>, std::make_unsigned<Stored>, std::make_signed<Stored>>>::type;

  template <typename Type>
  static bool fits(const AttributeNumber& whole) {
    return !is_less(whole, limit(std::numeric_limits<Type>::lowest())) &&
           !is_less(limit(std::numeric_limits<Type>::max()), whole);
  }

  // Casts by the bits: those of a number of the other sign are those of the stored one.
  static Stored cast(const AttributeNumber& whole) {
    return std::visit([](auto value) { return static_cast<Stored>(value); }, whole);
  }

  bool changes_sign_;
};

class PackingReader {
 public:
  PackingReader(const NetcdfFile& file, int variable)
      : file_(file), variable_(variable), type_(type_after_unsigned(file, variable)) {}

  Packing read() {
    scale_ = only("scale_factor");
    offset_ = only("add_offset");
    Packing packing;
    if (!scale_.values.empty()) packing.scale = as_double(scale_.values[0]);
    if (!offset_.values.empty()) packing.offset = as_double(offset_.values[0]);
    switch (type_) {
      case NC_BYTE:
        return with_terms<int8_t>(packing);
      case NC_UBYTE:
        return with_terms<uint8_t>(packing);
      case NC_SHORT:
        return with_terms<int16_t>(packing);
      case NC_USHORT:
        return with_terms<uint16_t>(packing);
      case NC_INT:
        return with_terms<int32_t>(packing);
      case NC_UINT:
        return with_terms<uint32_t>(packing);
      case NC_INT64:
        return with_terms<int64_t>(packing);
      case NC_UINT64:
        return with_terms<uint64_t>(packing);
      case NC_FLOAT:
        return with_terms<float>(packing);
      default:
        return with_terms<double>(packing);
    }
  }

 private:
  AttributeNumbers numbers(const char* attribute) const { return attribute_numbers(file_, variable_, attribute); }

  AttributeNumbers some(const char* attribute, size_t count) const {
    AttributeNumbers all = numbers(attribute);
    if (all.values.empty() || all.values.size() == count) return all;
    throw UserError::of(
        "{}: {} has {} numbers in its attribute {}, which must have {}; correct it, for example by "
        "ncatted",
        file_.path().string(), file_.name(variable_), all.values.size(), attribute, count);
  }

  AttributeNumbers only(const char* attribute) const { return some(attribute, 1); }

  template <typename Stored>
  Packing with_terms(Packing packing) const {
    const StoredNumbers<Stored> stored(type_ != file_.type(variable_));
    StoredTerms<Stored> terms;
    const AttributeNumbers fill = numbers("_FillValue"), missing = numbers("missing_value");
    for (const AttributeNumbers* attribute : {&fill, &missing}) {
      for (const AttributeNumber& none : attribute->numbers()) {
        if (const std::optional<Stored> number = stored.exactly(none)) terms.missing.push_back(*number);
      }
    }
    // Zarr has a fill value of its own.
    const bool has_default = fill.values.empty() && !file_.is_zarr() && type_ == file_.type(variable_);
    if (const auto number = default_fill(type_); number && has_default)
      terms.missing.push_back(*stored.exactly(*number));
    add_range(stored, terms, packing);
    packing.terms = terms;
    return packing;
  }

  template <typename Stored>
  void add_range(const StoredNumbers<Stored>& stored, StoredTerms<Stored>& terms, Packing& packing) const {
    const auto set_least = [&](const AttributeNumber& number, int type) {
      if (std::isnan(as_double(number))) return;
      if (is_of_physical_values(type)) {
        packing.least = static_cast<float>(as_double(number));
      } else {
        terms.least = stored.least(number);
      }
    };
    const auto set_most = [&](const AttributeNumber& number, int type) {
      if (std::isnan(as_double(number))) return;
      if (is_of_physical_values(type)) {
        packing.most = static_cast<float>(as_double(number));
      } else {
        terms.most = stored.most(number);
      }
    };
    // A range says more than its ends where a file has all three attributes, as in netCDF4-python.
    const AttributeNumbers range = some("valid_range", 2), least = only("valid_min"), most = only("valid_max");
    if (!range.values.empty()) {
      set_least(range.values[0], range.type);
      set_most(range.values[1], range.type);
      return;
    }
    if (!least.values.empty()) set_least(least.values[0], least.type);
    if (!most.values.empty()) set_most(most.values[0], most.type);
  }

  bool is_of_physical_values(int type) const {
    int wider = NC_NAT;
    for (const AttributeNumbers* one : {&scale_, &offset_}) {
      if (!one->values.empty() && (wider == NC_NAT || width_of(one->type) > width_of(wider))) wider = one->type;
    }
    if (wider == NC_NAT) return false;
    // JSON tells fractions from whole numbers, and no types.
    if (file_.is_zarr()) return type == NC_DOUBLE && type_ != NC_FLOAT && type_ != NC_DOUBLE;
    return type == wider && width_of(wider) > width_of(type_);
  }

  const NetcdfFile& file_;
  int variable_, type_;
  AttributeNumbers scale_, offset_;
};

}  // namespace

void Packing::append(std::span<const std::byte> numbers, size_t first, size_t stride, const std::vector<size_t>& order,
                     std::vector<float>& values) const {
  std::visit(
      [&]<typename Stored>(const StoredTerms<Stored>& of_type) {
        for (const size_t at : order) {
          Stored stored;
          std::memcpy(&stored, numbers.data() + (first + at * stride) * sizeof(Stored), sizeof(Stored));
          const bool is_value = stored >= of_type.least && stored <= of_type.most &&
                                std::ranges::find(of_type.missing, stored) == of_type.missing.end();
          const auto value = static_cast<float>(static_cast<double>(stored) * scale + offset);
          values.push_back(is_value && value >= least && value <= most ? value
                                                                       : std::numeric_limits<float>::quiet_NaN());
        }
      },
      terms);
}

Packing packing_of(const NetcdfFile& file, int variable) { return PackingReader(file, variable).read(); }

std::vector<double> coordinate_values(const NetcdfFile& file, int variable) {
  const AttributeNumbers scale = attribute_numbers(file, variable, "scale_factor");
  const AttributeNumbers offset = attribute_numbers(file, variable, "add_offset");
  std::vector<double> values = file.values(variable);
  const int type = file.type(variable);
  if (const int as_read = type_after_unsigned(file, variable); as_read != type) {
    const double all = std::exp2(8.0 * static_cast<double>(bytes_of_netcdf_type(type)));
    const bool loses_sign = type == NC_BYTE || type == NC_SHORT || type == NC_INT || type == NC_INT64;
    for (double& value : values) {
      if (loses_sign && value < 0) value += all;
      if (!loses_sign && value >= all / 2) value -= all;
    }
  }
  if (scale.values.empty() && offset.values.empty()) return values;
  const double factor = scale.values.empty() ? 1 : as_double(scale.values[0]);
  const double added = offset.values.empty() ? 0 : as_double(offset.values[0]);
  for (double& value : values) value = value * factor + added;
  return values;
}

}  // namespace terrace::data
