// The data of a rehearsal: random samples of any family, which no file holds.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/data_of_family.h"

namespace terrace::rehearse {

// Takes the place of a family's own data. Samples are those of its random_batch(), by their numbers in the run; they
// are divided among ranks as the family's samples are, those of unequal size by their sizes.
class RandomData : public data::DataOfFamily {
 public:
  // `of_family` outlives this object.
  explicit RandomData(const data::DataOfFamily& of_family) : of_family_(of_family) {}

  std::unique_ptr<data::Source> open(const config::Config& config) const override;
  std::vector<std::string> problems_with_files(const config::Config&) const override { return {}; }
  std::vector<std::pair<std::string, std::string>> file_facts(const config::Config&) const override { return {}; }
  data::MicroBatch random_batch(const config::Config& config, std::span<const int64_t> samples) const override {
    return of_family_.random_batch(config, samples);
  }

 private:
  const data::DataOfFamily& of_family_;
};

}  // namespace terrace::rehearse
