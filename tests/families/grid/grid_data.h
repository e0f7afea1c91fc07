// The data of grids: a prefix P stands for P.fields, fp32 [times, variables, places], and P.json, which describes them:
// variables, latitudes and longitudes, the seconds between two times, and the mean and deviation of each variable.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/order/mixture.h"
#include "terrace/data/source.h"
#include "tests/families/grid/grid_settings.h"

namespace terrace::grid {

// A forecast that is trained or judged: a field, and the one that is so many times later.
struct Pair {
  int64_t start = 0, later = 0;
};

// Cosines of the latitudes of all places.
std::vector<float> place_weights(const ModelConfig& config);

class GridSource : public data::Source {
 public:
  // Throws UserError with every problem.
  GridSource(const ModelConfig& model, const DataConfig& config, uint64_t seed);

  uint64_t samples_in_epoch() const override { return static_cast<uint64_t>(training_); }
  std::vector<AttachedFile> attached_files() const override {
    return {{.role = "statistics", .path = statistics_, .stored_as = "statistics.json"}};
  }
  Json identity() const override;

  // The samples with these numbers, of held-out starts or of the run.
  data::MicroBatch batch(std::vector<int64_t> numbers, bool held_out, const data::TensorNames& names) const;
  // A normalised value of the variable, as in the files.
  double in_units(double value, size_t variable) const;

 protected:
  std::vector<data::HeldOutPart> held_out_parts() const override {
    return {{config_.fields, static_cast<uint64_t>(held_out_ * std::ssize(leads_))}};
  }
  data::MicroBatch micro_batch(const data::Samples& samples, const data::TensorNames& names) const override {
    return batch({samples.numbers.begin(), samples.numbers.end()}, samples.held_out != nullptr, names);
  }
  int64_t items_of(uint64_t) const override { return model_.places(); }

 private:
  Pair pair_of(int64_t number, bool held_out) const;
  void add_field(int64_t time, std::vector<float>& values, double lead_days) const;

  ModelConfig model_;
  DataConfig config_;
  std::string statistics_;
  MappedFile file_;
  std::string checksum_;
  std::vector<double> means_, deviations_;
  std::vector<int64_t> leads_;  // in times
  int64_t training_ = 0, held_out_ = 0;
  double seconds_ = 0;  // between two times
  PhiloxKey key_;
  std::optional<data::Mixture> order_;  // of the starts
};

// Sentences about what does not fit, without reading the values.
std::vector<std::string> problems_with_grid_files(const ModelConfig& model, const DataConfig& config);

}  // namespace terrace::grid
