// Opens and checks the corpora of a GPT, and makes the random tokens that verify and rehearse train on.
#include "terrace/models/gpt/gpt_data.h"

#include <algorithm>
#include <cstring>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/data/text/generation_config.h"
#include "terrace/data/text/text_source.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {
namespace {

std::vector<int64_t> values_of(const data::HostTensor& tensor) {
  std::vector<int64_t> values(tensor.elements());
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// Places that divide the pairs of a query and a key evenly, of all samples together.
ContextPlaces balanced_by_documents(const data::HostTensor& documents, const ContextPlaces& places) {
  const std::vector<int64_t> numbers = values_of(documents);
  std::vector<int64_t> pairs(static_cast<size_t>(places.length));
  for (size_t sample = 0; sample < numbers.size(); sample += pairs.size()) {
    int64_t seen = 0;
    for (size_t place = 0; place < pairs.size(); ++place) {
      seen = place > 0 && numbers[sample + place] == numbers[sample + place - 1] ? seen + 1 : 1;
      pairs[place] += seen;
    }
  }
  return balanced_places(places.length, places.ranks, pairs);
}

}  // namespace

std::unique_ptr<data::Source> GptData::open(const config::Config& config) const {
  const ModelConfig& model = model_of(config);
  return std::make_unique<data::TextSource>(data::text_of(config), model.sequence, model.vocabulary, config.train.seed,
                                            data::text_phases(config), config.train.global_batch);
}

std::vector<std::string> GptData::problems_with_files(const config::Config& config) const {
  return data::problems_with_files(data::text_of(config), model_of(config).vocabulary, data::text_phases(config));
}

std::vector<std::pair<std::string, std::string>> GptData::file_facts(const config::Config& config) const {
  return data::file_facts(data::text_of(config), data::text_phases(config));
}

data::StageConfig GptData::stage(const config::Config& config) const { return data::text_of(config).stage; }

void GptData::hold_out(config::Config& config, const std::vector<std::string>& corpora,
                       const AttachedPaths& attached) const {
  data::TextConfig& text = data::text_of(config);
  text = {
      .validation = corpora, .reset_at_documents = text.reset_at_documents, .begin_token = std::move(text.begin_token)};
  take_attached(config, attached);
}

void GptData::choose_held_out(config::Config& config, const HeldOutChoice& choice) const {
  const int64_t sequence = model_of(config).sequence;
  if (choice.stride > sequence) {
    throw UserError::of("--stride {} is more than the {} tokens that the model reads (model.sequence); give 1 to {}",
                        choice.stride, sequence, sequence);
  }
  data::text_of(config).held_out_targets = {.every = choice.every_item, .stride = choice.stride};
}

void GptData::take_attached(config::Config& config, const AttachedPaths& attached) const {
  const auto path_of = [&](const char* role) {
    const auto found = attached.find(role);
    return found == attached.end() ? "" : found->second;
  };
  data::text_of(config).tokenizer = path_of("tokenizer");
  data::text_of(config).generation = path_of(data::generation_role);
}

// Each token is a function of the seed, the number of its sequence and its place in the sequence.
data::MicroBatch GptData::random_batch(const config::Config& config, std::span<const int64_t> samples) const {
  const ModelConfig& model = model_of(config);
  const PhiloxKey key = stream_key(config.train.seed, "verify tokens");
  const int64_t count = std::ssize(samples);
  const auto size = static_cast<size_t>(count * model.sequence);
  std::vector<int64_t> tokens(size), targets(size), positions(size), documents(size);
  data::MicroBatch batch{.counts = {static_cast<double>(count * model.sequence)}};
  size_t at = 0;
  for (const int64_t sequence : samples) {
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
  data::add_document_starts(documents, model.sequence, batch);
  return batch;
}

void GptData::cut_positions(data::MicroBatch& batch, const ContextPlaces& of_layout, int64_t rank) const {
  ContextPlaces places = of_layout;
  const auto documents = batch.tensors.find("documents");
  if (documents != batch.tensors.end() && places.striped) {
    places = balanced_by_documents(documents->second, places);
    batch.places = places;
  }
  for (const char* name : {"tokens", "targets"}) {
    const auto tensor = batch.tensors.find(name);
    if (tensor != batch.tensors.end()) tensor->second = data::cut_places(tensor->second, places, rank);
  }
  const auto targets = batch.tensors.find("targets");
  if (targets == batch.tensors.end()) return;
  // The loss counts targets of at least 0.
  const std::vector<int64_t> own = values_of(targets->second);
  batch.counts = {static_cast<double>(std::ranges::count_if(own, [](int64_t target) { return target >= 0; }))};
}

}  // namespace terrace::models::gpt
