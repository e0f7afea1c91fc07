// Reads numbers of attributes in the types that they have.
#include "terrace/data/fields/netcdf/attribute_numbers.h"

#include <netcdf.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/data/fields/formats/zarr_store.h"

namespace terrace::data {
namespace {

template <typename Number>
std::optional<Number> whole_number(std::string_view word) {
  Number number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::optional<AttributeNumber> number_of_word(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  if (const auto integer = whole_number<int64_t>(word)) return *integer;
  if (const auto integer = whole_number<uint64_t>(word)) return *integer;
  if (const auto number = whole_number<double>(word)) return *number;
  return std::nullopt;
}

int type_of(const std::vector<AttributeNumber>& values) {
  for (const AttributeNumber& value : values) {
    if (std::holds_alternative<double>(value)) return NC_DOUBLE;
  }
  return NC_INT64;
}

// Reads the numbers of a text such as "-999 -888" or "0, 100"; no value where a word is no number.
std::optional<AttributeNumbers> numbers_of_text(std::string_view text) {
  constexpr std::string_view between = " ,\t\n[]";
  AttributeNumbers all;
  for (size_t at = text.find_first_not_of(between); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(between, at), text.size());
    const std::optional<AttributeNumber> number = number_of_word(text.substr(at, end - at));
    if (!number) return std::nullopt;
    all.values.push_back(*number);
    at = text.find_first_not_of(between, end);
  }
  all.type = type_of(all.values);
  return all;
}

[[noreturn]] void refuse_text(const NetcdfFile& file, int variable, const std::string& attribute,
                              const std::string& text) {
  const std::string name = file.name(variable);
  throw UserError::of("{}: {} has the attribute {} = \"{}\", which is no number; correct it, for example by ncatted",
                      file.path().string(), name, attribute, text);
}

AttributeNumbers numbers_of_json(const NetcdfFile& file, int variable, const std::string& attribute, const Json& json) {
  if (json.is_array()) {
    AttributeNumbers all;
    for (const Json& one : json) {
      const AttributeNumbers number = numbers_of_json(file, variable, attribute, one);
      all.values.insert(all.values.end(), number.values.begin(), number.values.end());
    }
    all.type = type_of(all.values);
    return all;
  }
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return {.values = {json.get<uint64_t>()}, .type = NC_INT64};
  }
  if (json.is_number_integer()) return {.values = {json.get<int64_t>()}, .type = NC_INT64};
  if (json.is_number_float()) return {.values = {json.get<double>()}, .type = NC_DOUBLE};
  if (json.is_null()) return {};
  if (json.is_string()) {
    if (const auto numbers = numbers_of_text(json.get<std::string>())) return *numbers;
  }
  refuse_text(file, variable, attribute, json.is_string() ? json.get<std::string>() : json.dump());
}

template <typename Number>
std::vector<AttributeNumber> read_as(const NetcdfFile& file, int variable, const std::string& attribute, size_t count,
                                     int (*get)(int, int, const char*, Number*)) {
  std::vector<Number> numbers(count);
  file.check(get(file.id(), variable, attribute.c_str(), numbers.data()), attribute);
  std::vector<AttributeNumber> values;
  for (const Number number : numbers) {
    if constexpr (std::is_same_v<Number, double>) {
      values.emplace_back(number);
    } else if constexpr (std::is_signed_v<Number>) {
      values.emplace_back(static_cast<int64_t>(number));
    } else {
      values.emplace_back(static_cast<uint64_t>(number));
    }
  }
  return values;
}

}  // namespace

std::vector<AttributeNumber> AttributeNumbers::numbers() const {
  std::vector<AttributeNumber> all;
  for (const AttributeNumber& value : values) {
    if (!std::isnan(as_double(value))) all.push_back(value);
  }
  return all;
}

double as_double(const AttributeNumber& number) {
  return std::visit([](auto one) { return static_cast<double>(one); }, number);
}

AttributeNumbers attribute_numbers(const NetcdfFile& file, int variable, const std::string& attribute) {
  if (file.is_zarr()) {
    const Json json = zarr_attribute(file.path() / file.name(variable), attribute);
    return numbers_of_json(file, variable, attribute, json);
  }
  nc_type type = NC_NAT;
  size_t count = 0;
  if (nc_inq_att(file.id(), variable, attribute.c_str(), &type, &count) != NC_NOERR) return {};
  if (type == NC_CHAR || type == NC_STRING) {
    const std::string text = file.text(variable, attribute);
    if (auto numbers = numbers_of_text(text)) return *numbers;
    refuse_text(file, variable, attribute, text);
  }
  if (type == NC_FLOAT || type == NC_DOUBLE) {
    return {.values = read_as(file, variable, attribute, count, nc_get_att_double), .type = type};
  }
  if (type == NC_UINT64) {
    return {.values = read_as(file, variable, attribute, count, nc_get_att_ulonglong), .type = type};
  }
  return {.values = read_as(file, variable, attribute, count, nc_get_att_longlong), .type = type};
}

}  // namespace terrace::data
