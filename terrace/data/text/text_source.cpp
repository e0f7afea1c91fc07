// Makes micro-batches of a loader's samples.
#include "terrace/data/text/text_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/system/stop_request.h"
#include "terrace/base/text/units.h"
#include "terrace/data/order/recorded_order.h"
#include "terrace/data/text/corpus_record.h"
#include "terrace/data/text/generation_config.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

bool needs_tokens(const TensorNames& names) {
  return std::ranges::any_of(std::array{"tokens", "targets", "positions", "documents"},
                             [&](const char* name) { return names.contains(name); });
}

MicroBatch micro_batch_of(SampleBatch&& batch, const TensorNames& names) {
  MicroBatch result;
  const auto targets = std::ranges::count_if(batch.targets, [](int64_t target) { return target >= 0; });
  result.counts = {static_cast<double>(targets)};
  const auto add = [&](const char* name, const std::vector<int64_t>& values) {
    if (values.empty() || !names.contains(name)) return;
    result.tensors[name] = HostTensor::of(values, {batch.count, batch.length});
  };
  add("tokens", batch.tokens);
  add("targets", batch.targets);
  add("positions", batch.positions);
  add("documents", batch.documents);
  if (!batch.documents.empty() && names.contains("document_starts")) {
    add_document_starts(batch.documents, batch.length, result);
  }
  result.samples = std::move(batch.ids);
  return result;
}

// Returns " in FOLDER (a relative path)"; "" for an absolute path.
std::string place_of(const fs::path& path) {
  std::error_code error;
  const fs::path folder = path.is_relative() ? fs::current_path(error) : fs::path();
  return folder.empty() ? "" : fmt::format(" in {} (a relative path)", folder.string());
}

void check_corpora_exist(const std::string& key, const std::vector<std::string>& prefixes,
                         std::vector<std::string>& problems) {
  for (const std::string& prefix : prefixes) {
    for (const fs::path& path : corpus_files(prefix)) {
      if (fs::exists(path)) continue;
      problems.push_back(
          fmt::format("{} = \"{}\": {} does not exist{}; make it with: terrace data prepare INPUT --output {}", key,
                      prefix, path.string(), place_of(path), prefix));
    }
  }
}

void check_tokenizer(const std::string& path, const std::string& begin_token, int64_t vocabulary,
                     std::vector<std::string>& problems) {
  if (path.empty()) return;
  if (!fs::exists(path)) {
    problems.push_back(
        fmt::format("data.tokenizer = \"{}\" does not exist{}; give the model that `terrace data prepare` "
                    "was given or trained, or leave the key out",
                    path, place_of(path)));
    return;
  }
  try {
    const auto tokenizer = Tokenizer::open(path);
    const int64_t tokens = tokenizer->vocabulary();
    if (!begin_token.empty()) tokenizer->token_named("data.begin_token", begin_token);
    if (tokens <= vocabulary) return;
    problems.push_back(fmt::format("data.tokenizer = \"{}\" has {} tokens, model.vocabulary = {} is less; set it to {}",
                                   path, tokens, vocabulary, tokens));
  } catch (const UserError& error) {
    problems.push_back(fmt::format("data.tokenizer: {}", error.what()));
  }
}

void check_generation(const std::string& path, std::vector<std::string>& problems) {
  if (path.empty()) return;
  if (!fs::exists(path)) {
    problems.push_back(
        fmt::format("data.generation = \"{}\" does not exist{}; name the generation_config.json of the "
                    "model, or leave the key out",
                    path, place_of(path)));
    return;
  }
  try {
    read_generation_config(path);
  } catch (const UserError& error) {
    problems.push_back(fmt::format("data.generation: {}", error.what()));
  }
}

// Returns the entries of Loader::identity() by the name of the corpus. A corpus that is divided has two entries.
std::map<std::string, std::vector<Json>> entries_by_corpus(const Json& corpora) {
  std::map<std::string, std::vector<Json>> entries;
  for (const Json& entry : corpora) entries[entry.at("corpus").get<std::string>()].push_back(entry);
  return entries;
}

// Returns how two identities of a corpus differ, the likelier cause first.
std::string entry_difference(const Json& older, const Json& own) {
  const auto tokens = [](const Json& entry) { return entry.value("tokens", int64_t{0}); };
  if (tokens(older) != tokens(own)) {
    return fmt::format("had {} tokens and has {} now", format_count(tokens(older)), format_count(tokens(own)));
  }
  if (older.value("index_checksum", "") != own.value("index_checksum", ""))
    return "has as many tokens, but other documents";
  return "is divided into other parts for training and validation";
}

std::vector<std::string> corpus_differences(const Json& older, const Json& own) {
  const auto before = entries_by_corpus(older), now = entries_by_corpus(own);
  std::vector<std::string> differences;
  for (const auto& [name, entries] : before) {
    const auto found = now.find(name);
    if (found == now.end()) {
      differences.push_back(fmt::format("corpus {} is no longer among them", name));
    } else if (found->second != entries) {
      differences.push_back(fmt::format("corpus {} {}", name, entry_difference(entries[0], found->second[0])));
    }
  }
  for (const auto& [name, entries] : now) {
    if (!before.contains(name)) differences.push_back(fmt::format("corpus {} is new among them", name));
  }
  if (differences.empty() && older != own) differences.emplace_back("the corpora are in another order");
  return differences;
}

// Returns the corpora of the phases that have begun, by their first step.
std::map<int64_t, Json> begun_phases(const Json& identity, int64_t steps_done) {
  std::map<int64_t, Json> corpora;
  for (const Json& phase : identity.value("phases", Json::array())) {
    const auto step = phase.at("from_step").get<int64_t>();
    if (step <= steps_done) corpora[step] = phase.at("corpora");
  }
  return corpora;
}

Split split_of(const Samples& samples) { return samples.held_out == nullptr ? Split::train : Split::validation; }

// Returns the samples that are read. A rank that has none left in a round computes the first one, and none of it
// counts.
std::span<const uint64_t> read_of(const Samples& samples) {
  if (samples.held_out == nullptr || !samples.numbers.empty()) return samples.numbers;
  return std::span(samples.held_out->samples).first(1);
}

std::string file_checksum(const std::string& path) { return checksum(MappedFile(path).bytes()); }

}  // namespace

void add_document_starts(std::span<const int64_t> documents, int64_t length, MicroBatch& batch) {
  std::vector<int32_t> starts;
  int32_t longest = 0;
  const auto add = [&](size_t place) {
    const auto start = static_cast<int32_t>(place);
    if (!starts.empty()) longest = std::max(longest, start - starts.back());
    starts.push_back(start);
  };
  for (size_t i = 0; i < documents.size(); ++i) {
    if (i % static_cast<size_t>(length) == 0 || documents[i] != documents[i - 1]) add(i);
  }
  add(documents.size());
  const auto count = static_cast<int64_t>(starts.size());
  batch.tensors["document_starts"] = HostTensor::of(starts, {count});
  batch.sizes["longest_document"] = longest;
}

TextSource::TextSource(const TextConfig& config, int64_t sequence, int64_t vocabulary, uint64_t seed,
                       const std::vector<TextPhase>& phases, int64_t global_batch)
    : sequence_(sequence),
      tokenizer_(config.tokenizer),
      generation_(config.generation),
      loader_(config, sequence, vocabulary, seed, phases, global_batch) {
  if (fs::exists(tokenizer_)) tokenizer_stored_as_ = tokenizer_file_name(read_text(tokenizer_));
}

std::vector<AttachedFile> TextSource::attached_files() const {
  std::vector<AttachedFile> files;
  if (!tokenizer_.empty()) {
    files.push_back({.role = "tokenizer", .path = tokenizer_, .stored_as = tokenizer_stored_as_});
  }
  if (!generation_.empty()) {
    files.push_back({.role = generation_role, .path = generation_, .stored_as = generation_file});
  }
  return files;
}

MicroBatch TextSource::micro_batch(const Samples& samples, const TensorNames& names) const {
  if (samples.held_out == nullptr && !needs_tokens(names)) {
    // A pipeline stage between the first and the last needs the samples' numbers for dropout.
    return {.samples = {samples.numbers.begin(), samples.numbers.end()}, .counts = {0}};
  }
  SampleBatch batch = loader_.batch(split_of(samples), read_of(samples));
  if (samples.numbers.empty()) std::ranges::fill(batch.targets, -1);
  return micro_batch_of(std::move(batch), names);
}

void TextSource::describe(uint64_t sample, Json& record) const {
  const Loader::SamplePlace place = loader_.training_place(sample);
  const SampleBatch batch = loader_.batch(Split::train, std::span(&sample, 1));
  std::vector<int32_t> tokens = {static_cast<int32_t>(batch.tokens.front())};
  for (const int64_t target : batch.targets) {
    if (target >= 0) tokens.push_back(static_cast<int32_t>(target));
  }
  record["corpus"] = place.corpus;
  record["first_token"] = place.first_token;
  record["documents"] = {place.first_document, place.last_document};
  const auto tokenizer = fs::exists(tokenizer_) ? Tokenizer::open(tokenizer_) : nullptr;
  if (tokenizer == nullptr) {
    record["tokens"] = tokens;
    return;
  }
  std::erase_if(tokens, [&](int32_t token) { return token >= tokenizer->vocabulary(); });
  record["text"] = tokenizer->decode(tokens);
}

FileRanges TextSource::ranges_of(const Samples& samples, const TensorNames& names) const {
  return needs_tokens(names) ? loader_.reads(split_of(samples), read_of(samples)) : FileRanges{};
}

std::optional<uint64_t> TextSource::held_out_bytes(const HeldOut& held_out) const {
  if (!fs::exists(tokenizer_)) return std::nullopt;
  const auto tokenizer = Tokenizer::open(tokenizer_);
  const int64_t vocabulary = tokenizer->vocabulary();
  // A document may begin with a control token.
  const auto begins_text = [&](int64_t before) {
    return before < vocabulary && tokenizer->text_of(static_cast<int32_t>(before)).empty();
  };
  constexpr size_t samples_at_once = 64;
  const std::span<const uint64_t> all = held_out.samples;
  uint64_t bytes = 0;
  for (size_t first = 0; first < all.size(); first += samples_at_once) {
    if (stop_requested())
      throw UserError("stopped on request while counting the bytes of held-out text", ExitCode::stopped);
    const SampleBatch batch =
        loader_.batch(Split::validation, all.subspan(first, std::min(samples_at_once, all.size() - first)));
    for (size_t i = 0; i < batch.targets.size(); ++i) {
      const auto target = static_cast<int32_t>(batch.targets[i]);
      if (target < 0 || target >= vocabulary) continue;
      bytes +=
          begins_text(batch.tokens[i]) ? tokenizer->decode({&target, 1}).size() : tokenizer->text_of(target).size();
    }
  }
  return bytes;
}

Json TextSource::identity() const {
  Json identity = {{"corpora", loader_.identity()}};
  identity["tokenizer"] = fs::exists(tokenizer_) ? Json(file_checksum(tokenizer_)) : Json();
  Json phases = loader_.phase_identities();
  if (!phases.empty()) identity["phases"] = std::move(phases);
  // The version is recorded also without weights, since a later phase may have some.
  record_order(loader_.order_version(), identity);
  return identity;
}

void TextSource::follow_order_of(const Json& older, Json& own) {
  loader_.follow(recorded_order(older));
  record_order(loader_.order_version(), own);
}

std::string TextSource::difference(const Json& older, const Json& own, int64_t steps_done) const {
  if (older == own) return "";
  std::vector<std::string> differences;
  const auto compare = [&](const Json& before, const Json& now) {
    if (before == now) return;
    const std::vector<std::string> found = corpus_differences(before, now);
    differences.insert(differences.end(), found.begin(), found.end());
  };
  compare(older.at("corpora"), own.at("corpora"));
  // The corpora of phases that have not begun may be others.
  const std::map<int64_t, Json> before = begun_phases(older, steps_done), now = begun_phases(own, steps_done);
  for (const auto& [step, corpora] : before) compare(corpora, now.contains(step) ? now.at(step) : Json::array());
  for (const auto& [step, corpora] : now) compare(before.contains(step) ? before.at(step) : Json::array(), corpora);
  if (older.at("tokenizer") != own.at("tokenizer")) differences.emplace_back("data.tokenizer is another file");
  const std::set<std::string> once(differences.begin(), differences.end());  // a corpus may be in several phases
  return fmt::format("{}", fmt::join(once, "; "));
}

std::vector<Baseline> TextSource::baselines() const {
  if (loader_.samples(Split::validation) == 0) return {};
  return {{.key = "unigram_loss", .name = "unigram model", .loss = loader_.unigram_loss()}};
}

std::vector<std::string> problems_with_files(const TextConfig& config, int64_t vocabulary,
                                             const std::vector<TextPhase>& phases) {
  std::vector<std::string> problems;
  check_corpora_exist("data.train", config.train, problems);
  std::vector<std::string> checked = config.train;
  for (const TextPhase& phase : phases) {
    std::vector<std::string> more = phase.train;
    std::erase_if(more, [&](const std::string& name) { return std::ranges::find(checked, name) != checked.end(); });
    check_corpora_exist(phase.name + ".train", more, problems);
    checked.insert(checked.end(), more.begin(), more.end());
  }
  const char* held_out = config.train.empty() ? "--data" : "data.validation";  // see models::Family::hold_out
  check_corpora_exist(held_out, config.validation, problems);
  check_tokenizer(config.tokenizer, config.begin_token, vocabulary, problems);
  check_generation(config.generation, problems);
  try {
    check_corpora_of_run(config, phases);
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

std::vector<std::pair<std::string, std::string>> file_facts(const TextConfig& config,
                                                            const std::vector<TextPhase>& phases) {
  std::vector<std::pair<std::string, std::string>> facts;
  // Adds the value, or what prevents the value from being read.
  const auto add = [&](std::string what, const auto& read) {
    try {
      facts.emplace_back(std::move(what), read());
    } catch (const std::exception& error) {
      facts.emplace_back(std::move(what), fmt::format("unreadable ({})", error.what()));
    }
  };
  const std::vector<std::string> train = training_corpora(config, phases);
  for (const auto& [key, prefixes] : {std::pair{"data.train", train}, {"data.validation", config.validation}}) {
    for (const std::string& prefix : prefixes) {
      add(fmt::format("the content of {} \"{}\"", key, prefix), [&] { return corpus_fingerprint(prefix); });
    }
  }
  if (!config.tokenizer.empty()) {
    add(fmt::format("the content of data.tokenizer \"{}\"", config.tokenizer),
        [&] { return file_checksum(config.tokenizer); });
  }
  if (!config.generation.empty()) {
    add(fmt::format("the content of data.generation \"{}\"", config.generation),
        [&] { return file_checksum(config.generation); });
  }
  return facts;
}

}  // namespace terrace::data
