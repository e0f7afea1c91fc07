// The data of GPTs: token corpora.
#pragma once

#include "terrace/data/data_of_family.h"

namespace terrace::models::gpt {

class GptData : public data::DataOfFamily {
 public:
  std::unique_ptr<data::Source> open(const config::Config& config) const override;
  std::vector<std::string> problems_with_files(const config::Config& config) const override;
  std::vector<std::pair<std::string, std::string>> file_facts(const config::Config& config) const override;
  data::StageConfig stage(const config::Config& config) const override;
  bool evaluates_other_data() const override { return true; }
  void hold_out(config::Config& config, const std::vector<std::string>& corpora,
                const AttachedPaths& attached) const override;
  void choose_held_out(config::Config& config, const HeldOutChoice& choice) const override;
  void take_attached(config::Config& config, const AttachedPaths& attached) const override;
  data::MicroBatch random_batch(const config::Config& config, std::span<const int64_t> samples) const override;
  // Tokens and targets; attention and rotary angles need the documents and positions of whole sequences. Documents
  // decide which positions a rank has in causal attention.
  void cut_positions(data::MicroBatch& batch, const ContextPlaces& of_layout, int64_t rank) const override;
};

}  // namespace terrace::models::gpt
