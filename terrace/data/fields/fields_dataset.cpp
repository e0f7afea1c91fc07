// Maps the arrays of P.nc.
#include "terrace/data/fields/fields_dataset.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

std::span<const float> part(std::span<const float> all, int64_t number, int64_t places) {
  return all.subspan(static_cast<size_t>(number * places), static_cast<size_t>(places));
}

void check_sizes(const std::string& prefix, const FieldsDescription& description) {
  const std::vector<uint64_t> wanted = {description.times.size(), description.variables.size(),
                                        description.latitudes.size(), description.longitudes.size()};
  const bool is_whole = description.fields.sizes == wanted && !description.times.empty() &&
                        description.climatology_fields.sizes.empty() == (description.climatology_periods() == 0) &&
                        description.constant_fields.sizes.empty() == description.constants.empty();
  if (!is_whole) throw UserError::of("{}.json describes other arrays than it has; prepare the dataset again", prefix);
}

}  // namespace

MappedFields::MappedFields(const std::filesystem::path& path, const FieldsDescription& description) : file_(path) {
  fields_ = array(description.fields);
  constants_ = array(description.constant_fields);
  climatology_ = array(description.climatology_fields);
}

std::span<const float> MappedFields::array(const StoredArray& array) const {
  if (array.sizes.empty()) return {};
  const uint64_t bytes = array.numbers() * sizeof(float), has = file_.bytes().size();
  if (array.offset % sizeof(float) != 0 || array.offset > has || bytes > has - array.offset) {
    throw UserError::of("{} has {} bytes and should have at least {}; it was cut off, so prepare the dataset again",
                        file_.path().string(), has, array.offset + bytes);
  }
  return {reinterpret_cast<const float*>(file_.bytes().data() + array.offset), array.numbers()};
}

FieldsDataset::FieldsDataset(const std::string& prefix)
    : prefix_(prefix), description_(read_fields_description(description_path(prefix))) {
  check_sizes(prefix, description_);
  mapped_ = MappedFields(fields_path(prefix), description_);
  mapped_.file().expect_random_reads();
  for (const int64_t time : description_.times) {
    const auto steps = description_.step.between(description_.calendar, description_.times.front(), time);
    if (!steps || (!steps_.empty() && *steps <= steps_.back())) {
      throw UserError::of("{}.json has times that do not lie on its step; prepare the dataset again", prefix);
    }
    steps_.push_back(*steps);
  }
  has_gaps_ = steps_.back() != std::ssize(steps_) - 1;
}

std::span<const float> FieldsDataset::field(int64_t time, int64_t variable) const {
  return part(mapped_.fields(), time * std::ssize(description_.variables) + variable, description_.places());
}

std::span<const float> FieldsDataset::constant(int64_t constant) const {
  return part(mapped_.constants(), constant, description_.places());
}

std::span<const float> FieldsDataset::climatology(int64_t period, int64_t variable) const {
  return part(mapped_.climatology(), period * std::ssize(description_.variables) + variable, description_.places());
}

void FieldsDataset::expect(int64_t time) const {
  const uint64_t bytes = description_.variables.size() * static_cast<uint64_t>(description_.places()) * sizeof(float);
  mapped_.file().expect(description_.fields.offset + static_cast<uint64_t>(time) * bytes, bytes);
}

int64_t FieldsDataset::time_after(int64_t time, int64_t steps) const {
  const int64_t wanted = steps_[static_cast<size_t>(time)] + steps;
  if (!has_gaps_) return wanted >= 0 && wanted < std::ssize(steps_) ? wanted : -1;
  const auto found = std::ranges::lower_bound(steps_, wanted);
  return found != steps_.end() && *found == wanted ? found - steps_.begin() : -1;
}

int64_t FieldsDataset::instant_after(int64_t time, int64_t steps) const {
  if (const int64_t known = time_after(time, steps); known >= 0) return description_.times[static_cast<size_t>(known)];
  const int64_t start = description_.times[static_cast<size_t>(time)];
  if (description_.step.months == 0) return start + steps * description_.step.seconds;
  return months_after(description_.calendar, start, steps * description_.step.months);
}

}  // namespace terrace::data
