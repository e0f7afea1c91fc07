// The data of vision transformers: prepared fields of weather and climate.
#pragma once

#include "terrace/data/data_of_family.h"
#include "terrace/data/fields/fields_source.h"

namespace terrace::models::vit {

struct ModelConfig;

// The fields that a model of the configuration reads and predicts.
data::FieldsRequest fields_request(const ModelConfig& model);

class VitData : public data::DataOfFamily {
 public:
  std::unique_ptr<data::Source> open(const config::Config& config) const override;
  std::vector<std::string> problems_with_files(const config::Config& config) const override;
  std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const override;
  data::StageConfig stage(const config::Config& config) const override;
  bool evaluates_other_data() const override { return true; }
  void hold_out(config::Config& config, const std::vector<std::string>& datasets,
                const AttachedPaths& attached) const override;
  void take_attached(config::Config& config, const AttachedPaths& attached) const override;
  std::string keep_statistics(config::Config& config, const AttachedPaths& attached) const override;
  const data::Preparation* preparation() const override;
  data::MicroBatch random_batch(const config::Config& config, std::span<const int64_t> samples) const override;
};

}  // namespace terrace::models::vit
