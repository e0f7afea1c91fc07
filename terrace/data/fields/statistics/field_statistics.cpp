// Computes statistics by blocks of rows of one variable, so that the memory does not grow with the number of times.
#include "terrace/data/fields/statistics/field_statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace/data/fields/statistics/annual_harmonics.h"
#include "terrace/data/ordered_map.h"

namespace terrace::data {
namespace {

constexpr size_t most_block_bytes = size_t{24} << 20;  // of the sums of one block's climatology

// Rows first_row .. first_row + rows - 1 of a variable.
struct RowBlock {
  size_t variable = 0;
  size_t first_row = 0, rows = 0;
};

struct BlockStatistics {
  RowBlock block = {};
  RunningMoments values = {}, changes = {};
  std::vector<float> climatology = {};  // [periods, rows, longitudes]
};

// The facts about the training times that all blocks need.
struct TrainingTimes {
  size_t first = 0, end = 0;
  std::vector<bool> follows = {};    // whether the time lies one step after the one before, by time - first
  std::vector<size_t> periods = {};  // of the climatology, by time - first
};

TrainingTimes training_times(const FieldsDescription& description, const TimeSplit& split) {
  TrainingTimes times{.first = static_cast<size_t>(split.first_time), .end = static_cast<size_t>(split.end_time)};
  for (size_t time = times.first; time < times.end; ++time) {
    const int64_t now = description.times[time];
    times.follows.push_back(time > times.first &&
                            description.step.between(description.calendar, description.times[time - 1], now) == 1);
    if (description.climatology != ClimatologyKind::none) {
      times.periods.push_back(static_cast<size_t>(description.climatology_period(now)));
    }
  }
  return times;
}

// Sums and counts of values by period of the climatology and place.
class ClimatologySums {
 public:
  ClimatologySums(size_t periods, size_t places)
      : places_(places), sums_(periods * places), counts_(periods * places) {}

  void add(size_t period, std::span<const float> values) {
    for (size_t place = 0; place < places_; ++place) {
      const bool has_value = !std::isnan(values[place]);
      sums_[period * places_ + place] += has_value ? static_cast<double>(values[place]) : 0.0;
      counts_[period * places_ + place] += has_value ? 1 : 0;
    }
  }

  // Fits `number` harmonics to the periods of the year at each place. Each period of the year has `times_of_day`
  // periods of the climatology one after another, and each time of the day is fitted by itself.
  std::vector<float> harmonics(int64_t number, size_t times_of_day) const {
    const size_t periods = sums_.size() / places_ / times_of_day;
    AnnualHarmonics year(periods, number);
    std::vector<double> sums(periods), fitted(periods);
    std::vector<uint32_t> counts(periods);
    std::vector<float> values(sums_.size());
    for (size_t time = 0; time < times_of_day; ++time) {
      for (size_t place = 0; place < places_; ++place) {
        const auto at = [&](size_t period) { return (period * times_of_day + time) * places_ + place; };
        for (size_t period = 0; period < periods; ++period) {
          sums[period] = sums_[at(period)];
          counts[period] = counts_[at(period)];
        }
        year.fit(sums, counts, fitted);
        for (size_t period = 0; period < periods; ++period) values[at(period)] = static_cast<float>(fitted[period]);
      }
    }
    return values;
  }

  std::vector<float> means() const {
    std::vector<double> all(places_);
    std::vector<uint64_t> counted(places_);
    for (size_t i = 0; i < sums_.size(); ++i) {
      all[i % places_] += sums_[i];
      counted[i % places_] += counts_[i];
    }
    std::vector<float> means(sums_.size());
    for (size_t i = 0; i < sums_.size(); ++i) {
      const bool has_values = counts_[i] > 0;
      const double sum = has_values ? sums_[i] : all[i % places_];
      const auto count = static_cast<double>(has_values ? counts_[i] : counted[i % places_]);
      means[i] = static_cast<float>(sum / count);  // NaN where no time has a value
    }
    return means;
  }

 private:
  size_t places_;
  std::vector<double> sums_;
  std::vector<uint32_t> counts_;
};

BlockStatistics statistics_of(const RowBlock& block, const FieldsDescription& description, const StoreFile& store,
                              const TrainingTimes& times) {
  const size_t columns = description.longitudes.size(), rows = description.latitudes.size();
  const size_t places = block.rows * columns;
  BlockStatistics statistics{.block = block};
  ClimatologySums sums(static_cast<size_t>(description.climatology_periods()), places);
  std::vector<float> values(places), before(places);
  for (size_t time = times.first; time < times.end; ++time) {
    const size_t field = time * description.variables.size() + block.variable;
    store.read(description.fields, (field * rows + block.first_row) * columns, values);
    statistics.values.add(values);
    if (times.follows[time - times.first]) statistics.changes.add_changes(before, values);
    if (!times.periods.empty()) sums.add(times.periods[time - times.first], values);
    std::swap(values, before);
  }
  statistics.climatology =
      description.harmonics
          ? sums.harmonics(*description.harmonics, static_cast<size_t>(description.climatology_times_of_day()))
          : sums.means();
  return statistics;
}

// Adds a group of numbers, which `number(i)` reads, to a count, a mean and a sum of squared differences from the mean.
template <typename Number>
void add_group(size_t size, Number number, double& count, double& mean, double& squares) {
  double sum = 0, numbers = 0;
  for (size_t i = 0; i < size; ++i) {
    const double value = number(i);
    const bool is_number = !std::isnan(value);
    sum += is_number ? value : 0.0;
    numbers += is_number ? 1.0 : 0.0;
  }
  if (numbers == 0) return;
  const double own = sum / numbers;
  double own_squares = 0;
  for (size_t i = 0; i < size; ++i) {
    const double difference = number(i) - own;
    own_squares += std::isnan(difference) ? 0.0 : difference * difference;
  }
  const double all = count + numbers, apart = own - mean;
  squares += own_squares + apart * apart * count * numbers / all;
  mean += apart * numbers / all;
  count = all;
}

void add_moments_of_constants(FieldsDescription& description, const StoreFile& store) {
  for (size_t i = 0; i < description.constants.size(); ++i) {
    std::vector<float> constant(static_cast<size_t>(description.places()));
    store.read(description.constant_fields, i * constant.size(), constant);
    RunningMoments moments;
    moments.add(constant);
    description.constants[i].moments = moments.moments();
  }
}

// Returns the blocks of all variables, those of the first variable first.
std::vector<RowBlock> blocks_of(const FieldsDescription& description) {
  const size_t rows = description.latitudes.size(), columns = description.longitudes.size();
  const auto periods = static_cast<size_t>(description.climatology_periods());
  const size_t row_bytes = std::max<size_t>(1, periods * columns * (sizeof(double) + sizeof(uint32_t)));
  const size_t block_rows = std::clamp<size_t>(most_block_bytes / row_bytes, 1, rows);
  std::vector<RowBlock> blocks;
  for (size_t variable = 0; variable < description.variables.size(); ++variable) {
    for (size_t row = 0; row < rows; row += block_rows) {
      blocks.push_back({variable, row, std::min(block_rows, rows - row)});
    }
  }
  return blocks;
}

// Returns the blocks of a rank: rank r of n has blocks r, r + n, ..
std::vector<RowBlock> own_blocks(const std::vector<RowBlock>& blocks, const PrepareRanks& ranks) {
  std::vector<RowBlock> own;
  for (size_t i = static_cast<size_t>(ranks.rank()); i < blocks.size(); i += static_cast<size_t>(ranks.size())) {
    own.push_back(blocks[i]);
  }
  return own;
}

struct BlockMoments {
  RunningMoments values = {}, changes = {};
};
static_assert(std::is_trivially_copyable_v<BlockMoments>);  // ranks exchange its bytes

// Returns the bytes of the moments of each block. Writes the blocks' climatology.
std::string moments_of_blocks(const std::vector<RowBlock>& blocks, const FieldsDescription& description,
                              const StoreFile& store, const TrainingTimes& times, int64_t threads,
                              const std::function<void(uint64_t)>& look) {
  const size_t rows = description.latitudes.size(), columns = description.longitudes.size();
  const auto periods = static_cast<size_t>(description.climatology_periods());
  std::string moments;
  uint64_t done = 0;
  auto next = blocks.begin();
  const auto produce = [&]() -> std::optional<RowBlock> {
    look(done);
    return next == blocks.end() ? std::nullopt : std::optional<RowBlock>(*next++);
  };
  const auto consume = [&](BlockStatistics& statistics) {
    const RowBlock& block = statistics.block;
    const BlockMoments own{statistics.values, statistics.changes};
    moments.append(reinterpret_cast<const char*>(&own), sizeof(own));
    const size_t places = block.rows * columns;
    for (size_t period = 0; period < periods; ++period) {
      store.write(description.climatology_fields,
                  ((period * description.variables.size() + block.variable) * rows + block.first_row) * columns,
                  std::span(statistics.climatology).subspan(period * places, places));
    }
    done += places * (times.end - times.first);
    look(done);
  };
  ordered_map<RowBlock, BlockStatistics>(
      static_cast<int>(threads), produce,
      [&]() -> std::function<BlockStatistics(RowBlock&)> {
        return [&](RowBlock& block) { return statistics_of(block, description, store, times); };
      },
      consume);
  return moments;
}

void merge_moments(const std::vector<RowBlock>& blocks, const std::vector<std::string>& of_ranks,
                   FieldsDescription& description) {
  std::vector<BlockMoments> all(description.variables.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string& bytes = of_ranks[i % of_ranks.size()];
    BlockMoments of_block;
    std::memcpy(&of_block, bytes.data() + i / of_ranks.size() * sizeof(of_block), sizeof(of_block));
    all[blocks[i].variable].values.merge(of_block.values);
    all[blocks[i].variable].changes.merge(of_block.changes);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    description.variables[i].moments = all[i].values.moments();
    description.variables[i].changes = all[i].changes.moments();
  }
}

}  // namespace

void RunningMoments::add(std::span<const float> values) {
  add_group(
      values.size(), [&](size_t i) { return static_cast<double>(values[i]); }, count_, mean_, squares_);
}

void RunningMoments::add_changes(std::span<const float> earlier, std::span<const float> later) {
  add_group(
      later.size(), [&](size_t i) { return static_cast<double>(later[i]) - static_cast<double>(earlier[i]); }, count_,
      mean_, squares_);
}

void RunningMoments::merge(const RunningMoments& other) {
  if (other.count_ == 0) return;
  const double all = count_ + other.count_, apart = other.mean_ - mean_;
  squares_ += other.squares_ + apart * apart * count_ * other.count_ / all;
  mean_ += apart * other.count_ / all;
  count_ = all;
}

Moments RunningMoments::moments() const { return {mean_, count_ > 0 ? std::sqrt(squares_ / count_) : 0}; }

void compute_statistics(FieldsDescription& description, const StoreFile& store, PrepareRanks& ranks, int64_t threads,
                        const std::function<void(uint64_t)>& look) {
  on_all_ranks(ranks, [&] { add_moments_of_constants(description, store); });
  const auto split = description.splits.find("train");
  if (split == description.splits.end()) return;
  const std::vector<RowBlock> blocks = blocks_of(description);
  std::string own;
  on_all_ranks(ranks, [&] {
    own = moments_of_blocks(own_blocks(blocks, ranks), description, store, training_times(description, split->second),
                            threads, look);
  });
  merge_moments(blocks, ranks.gather(own), description);
}

}  // namespace terrace::data
