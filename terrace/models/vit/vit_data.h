// The data of vision transformers: prepared fields of weather and climate.
#pragma once

#include "terrace/data/data_of_family.h"

namespace terrace::models::vit {

class VitData : public data::DataOfFamily {
 public:
  std::unique_ptr<data::Source> open(const config::Config& config) const override;
  std::vector<std::string> problems_with_files(const config::Config& config) const override;
  std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const override;
  data::MicroBatch random_batch(const config::Config& config, int64_t first, int64_t count) const override;
};

}  // namespace terrace::models::vit
