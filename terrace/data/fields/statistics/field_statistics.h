// Means, deviations and the climatology of the training part of a dataset, in double precision.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {

// Count, mean and sum of squared differences from the mean, of numbers that come in groups (Welford; Chan, Golub and
// LeVeque, "Updating formulae", 1979). NaN are left out.
class RunningMoments {
 public:
  void add(std::span<const float> values);
  // Adds the differences later - earlier.
  void add_changes(std::span<const float> earlier, std::span<const float> later);
  void merge(const RunningMoments& other);
  double count() const { return count_; }
  // Returns the mean, and the deviation of the whole population.
  Moments moments() const;

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

// Fills the moments of the description, those of constants over their places, and writes the climatology. A period of
// the year without a training time has the mean of all training times. With `harmonics` the climatology of a place and
// time of the day is the mean and the first harmonics of the year that fit its training times best (least squares,
// where each time counts at the middle of its month or day), or the mean of all where fewer periods have values than
// there are coefficients. Blocks of rows are divided among the ranks, and a rank's blocks among the threads; the
// results do not depend on the number of ranks or threads, since all ranks merge the moments of all blocks in the same
// order. `look` is called with the number of training values that this rank has done, and may throw to stop. All ranks
// get the moments.
void compute_statistics(FieldsDescription& description, const StoreFile& store, PrepareRanks& ranks, int64_t threads,
                        const std::function<void(uint64_t)>& look);

}  // namespace terrace::data
