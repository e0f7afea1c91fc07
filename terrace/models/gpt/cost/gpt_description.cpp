// Takes the unit table of a GPT from its configuration.
#include "terrace/models/gpt/cost/gpt_description.h"

#include "terrace/data/text/text_config.h"
#include "terrace/models/gpt/cost/unit_table.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {

schedule::UnitTable GptDescription::unit_table(const config::Config& config,
                                               const schedule::UnitTableOptions& options) const {
  const bool by_document = data::text_of(config).reset_at_documents;
  schedule::UnitTable table = gpt::unit_table(model_of(config), options, by_document);
  if (by_document && config.layout.context > 1) {
    // Documents decide which positions a rank has, also of those that read only tokens or targets.
    for (schedule::UnitRow* row : {&table.front(), &table.back()}) row->batch_tensors.emplace_back("documents");
  }
  return table;
}

schedule::SampleSizes GptDescription::sample_sizes(const config::Config& config) const {
  const int64_t tokens = model_of(config).sequence;
  return {.average = {{"tokens", static_cast<double>(tokens)}}, .largest = {{"tokens", tokens}}};
}

schedule::SampleBytes GptDescription::sample_bytes(const config::Config& config) const {
  constexpr int64_t most_of_two_bytes = 65'536;
  const ModelConfig& model = model_of(config);
  const int64_t of_token = model.vocabulary > most_of_two_bytes ? 4 : 2;
  const auto window = static_cast<double>((model.sequence + 1) * of_token);
  return {.inputs = window, .loss = window, .both = window};
}

schedule::ContextWork GptDescription::context_work(const config::Config& config) const {
  using config::ContextRoute;
  const ModelConfig& model = model_of(config);
  schedule::ContextWork work{.places = positions_over_ranks(config), .routes = {}};
  if (model.attention_dropout == 0) work.routes = {ContextRoute::ring, ContextRoute::gather};
  if (model.heads / config.layout.tensor % config.layout.context == 0) work.routes.push_back(ContextRoute::heads);
  return work;
}

}  // namespace terrace::models::gpt
