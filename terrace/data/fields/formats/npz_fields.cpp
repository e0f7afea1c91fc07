// Reads ClimaX's shards: YEAR_SHARD.npz with an array [times, 1, latitudes, longitudes] for each variable, and lat.npy
// and lon.npy in the same folder or the one above.
#include "terrace/data/fields/formats/npz_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/data/fields/field_file.h"
#include "terrace/data/npz_archive.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t shard_year_seconds = 365 * int64_t{86400};  // the shards of a leap year leave out its last day

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_number ? std::optional(number) : std::nullopt;
}

struct ShardName {
  int64_t year = 0, shard = 0;
};

std::optional<ShardName> shard_name(const fs::path& path) {
  const std::string stem = path.stem().string();
  const size_t line = stem.find('_');
  if (path.extension() != ".npz" || line == std::string::npos) return std::nullopt;
  const auto year = whole_number(std::string_view(stem).substr(0, line));
  const auto shard = whole_number(std::string_view(stem).substr(line + 1));
  return year && shard ? std::optional(ShardName{*year, *shard}) : std::nullopt;
}

// A variable of a shard has its times first and its grid last.
bool is_field(const NpyArray& array) {
  return array.shape.size() == 3 || (array.shape.size() == 4 && array.shape[1] == 1);
}

uint64_t times_of(const fs::path& path) {
  const NpzArchive archive(path);
  for (const NpzArchive::Entry& entry : archive.entries()) {
    const NpyArray array = archive.header(entry);
    if (is_field(array)) return array.shape[0];
  }
  throw UserError::of("{} has no array [times, 1, latitudes, longitudes]", path.string());
}

class NpzFields : public FieldFile {
 public:
  explicit NpzFields(const fs::path& path) : archive_(path) {
    contents_.path = path;
    row_order_ = ascending_order(coordinate("lat.npy"), false, contents_.grid.latitudes);
    column_order_ = ascending_order(coordinate("lon.npy"), true, contents_.grid.longitudes);
    add_times();
    for (const NpzArchive::Entry& entry : archive_.entries()) {
      const NpyArray array = archive_.header(entry);
      const std::vector<uint64_t> grid = {row_order_.size(), column_order_.size()};
      if (!is_field(array) || array.shape[0] != contents_.times.size() ||
          !std::equal(grid.begin(), grid.end(), array.shape.end() - 2)) {
        throw UserError::of("{}: {} has the shape ({}), and the other files ask for ({}, 1, {}, {})", path.string(),
                            entry.name, fmt::join(array.shape, ", "), contents_.times.size(), grid[0], grid[1]);
      }
      contents_.variables.push_back({.name = entry.name, .has_times = true});
    }
  }

  const FileContents& contents() const override { return contents_; }
  size_t times_in_chunk(size_t) const override { return 1; }

  void read(const FieldSlab& slab, std::vector<float>& values) override {
    if (read_ != slab.variable) array_ = archive_.array(archive_.entries()[slab.variable], unpacked_);
    read_ = slab.variable;
    const size_t places = contents_.grid.places(), columns = column_order_.size();
    buffer_.resize(slab.times * places);
    array_.read(slab.first_time * places, buffer_);
    values.clear();
    values.reserve(buffer_.size());
    for (size_t time = 0; time < slab.times; ++time) {
      for (const size_t row : row_order_) {
        for (const size_t column : column_order_) values.push_back(buffer_[time * places + row * columns + column]);
      }
    }
  }

 private:
  std::vector<double> coordinate(const char* name) const {
    fs::path file = contents_.path.parent_path() / name;
    if (!fs::exists(file)) file = contents_.path.parent_path() / ".." / name;
    if (!fs::exists(file)) {
      throw UserError::of("{} has no {} in its folder or the one above; shards do not say where their places are",
                          contents_.path.string(), name);
    }
    const MappedFile mapped(file);
    const NpyArray array = parse_npy(mapped.bytes(), file.string());
    std::vector<float> numbers(array.numbers());
    array.read(0, numbers);
    return {numbers.begin(), numbers.end()};
  }

  // Computes the times. A shard begins where those before it end, and all shards of a year together have its 365 days.
  void add_times() {
    const std::optional<ShardName> own = shard_name(contents_.path);
    if (!own) throw UserError::of("{} is not named YEAR_SHARD.npz, which would say its times", contents_.path.string());
    std::map<int64_t, uint64_t> times;  // by shard of the year
    std::map<int64_t, size_t> shards_of_year;
    const fs::path folder = contents_.path.parent_path().empty() ? "." : contents_.path.parent_path();
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::optional<ShardName> other = shard_name(entry.path());
      if (other) ++shards_of_year[other->year];
      if (other && other->year == own->year) times[other->shard] = times_of(entry.path());
    }
    // A year that lacks its last shards would seem to have longer steps.
    for (const auto& [year, shards] : shards_of_year) {
      if (shards <= times.size()) continue;
      throw UserError::of("{}: {} has {} of the {} shards that {} has, so its times are not known",
                          contents_.path.string(), own->year, times.size(), shards, year);
    }
    int64_t before = 0, all = 0, expected = 0;
    for (const auto& [shard, count] : times) {
      if (shard != expected++) {
        throw UserError::of("{}: the shard {} of {} is not in its folder, so its times are not known",
                            contents_.path.string(), expected - 1, own->year);
      }
      if (shard < own->shard) before += static_cast<int64_t>(count);
      all += static_cast<int64_t>(count);
    }
    if (all == 0 || shard_year_seconds % all != 0) {
      throw UserError::of(
          "{}: the {} shards of {} have {} times, into which the 365 days of a year are not divisible; is "
          "one missing?",
          contents_.path.string(), times.size(), own->year, all);
    }
    const int64_t begin = instant_of(contents_.calendar, {.year = own->year}), step = shard_year_seconds / all;
    for (uint64_t i = 0; i < times[own->shard]; ++i) {
      contents_.times.push_back(begin + (before + static_cast<int64_t>(i)) * step);
    }
  }

  NpzArchive archive_;
  FileContents contents_;
  std::vector<size_t> row_order_, column_order_;
  size_t read_ = ~size_t{0};  // the variable of array_
  NpyArray array_;
  std::vector<std::byte> unpacked_;
  std::vector<float> buffer_;
};

}  // namespace

bool is_shard_of_fields(const fs::path& path) { return shard_name(path).has_value(); }

std::unique_ptr<FieldFile> open_npz(const fs::path& path) { return std::make_unique<NpzFields>(path); }

}  // namespace terrace::data
