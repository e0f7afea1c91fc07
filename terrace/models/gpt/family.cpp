// Defines the family of the GPT: its model, its data, and the sizes that verify trains.
#include "terrace/models/gpt/family.h"

#include "terrace/base/random.h"
#include "terrace/data/text/text_source.h"
#include "terrace/models/gpt/cost/config.h"
#include "terrace/models/gpt/cost/family.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/gpt/shrink.h"

namespace terrace::models::gpt {
namespace {

// Each token is a function of the seed, the number of its sequence and its place in the sequence.
data::MicroBatch random_batch(const config::Config& config, int64_t first, int64_t count) {
  const ModelConfig& model = model_of(config);
  const PhiloxKey key = stream_key(config.train.seed, "verify tokens");
  const auto size = static_cast<size_t>(count * model.sequence);
  std::vector<int64_t> tokens(size), targets(size), positions(size), documents(size);
  data::MicroBatch batch{.counts = {count * model.sequence}};
  size_t at = 0;
  for (int64_t sequence = first; sequence < first + count; ++sequence) {
    batch.samples.push_back(sequence);
    for (int64_t place = 0; place < model.sequence; ++place, ++at) {
      const PhiloxBlock draw = philox_at(key, static_cast<uint64_t>(sequence), static_cast<uint64_t>(place));
      tokens[at] = draw[0] % model.vocabulary;
      targets[at] = draw[1] % model.vocabulary;
      const bool begins = place == 0 || draw[2] % 8 == 0;
      documents[at] = place == 0 ? 0 : documents[at - 1] + static_cast<int64_t>(begins);
      positions[at] = begins ? 0 : positions[at - 1] + 1;
    }
  }
  const auto add = [&](const char* name, const std::vector<int64_t>& values) {
    batch.tensors[name] = data::HostTensor::of(values, {count, model.sequence});
  };
  add("tokens", tokens);
  add("targets", targets);
  if (!data::text_of(config).reset_at_documents) return batch;
  add("positions", positions);
  add("documents", documents);
  return batch;
}

Family make_family() {
  Family family;
  static_cast<PlannedFamily&>(family) = planned_family();
  family.build = [](const config::Config& config, const nn::Build& build) -> std::unique_ptr<Model> {
    return std::make_unique<Gpt>(model_of(config), build);
  };
  family.open_data = [](const config::Config& config) -> std::unique_ptr<data::Source> {
    const ModelConfig& model = model_of(config);
    return std::make_unique<data::TextSource>(data::text_of(config), model.sequence, model.vocabulary,
                                              config.train.seed, data::text_phases(config));
  };
  family.problems_with_files = [](const config::Config& config) {
    return data::problems_with_files(data::text_of(config), model_of(config).vocabulary, data::text_phases(config));
  };
  family.hold_out = [](config::Config& config, const std::vector<std::string>& corpora, const std::string& tokenizer) {
    data::TextConfig& text = data::text_of(config);
    text = {.validation = corpora, .reset_at_documents = text.reset_at_documents, .tokenizer = tokenizer};
  };
  family.file_facts = [](const config::Config& config) {
    return data::file_facts(data::text_of(config), data::text_phases(config));
  };
  family.shrink = shrink;
  family.random_batch = random_batch;
  return family;
}

}  // namespace

const Family& family() {
  static const Family family = make_family();
  return family;
}

}  // namespace terrace::models::gpt
