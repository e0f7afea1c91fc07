// Reads and writes records of corpora, and decides which corpora fit into one run.
#include "terrace/data/text/corpus_record.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json_record.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t record_format = 1;
constexpr uint64_t places = 64, place_bytes = 4096, end_bytes = 256 << 10;

void add(std::vector<std::byte>& sample, std::span<const std::byte> bytes, uint64_t first, uint64_t count) {
  const auto part = bytes.subspan(first, std::min<uint64_t>(count, bytes.size() - first));
  sample.insert(sample.end(), part.begin(), part.end());
}

void add_places(std::vector<std::byte>& sample, std::span<const std::byte> bytes) {
  if (bytes.size() <= places * place_bytes) return add(sample, bytes, 0, bytes.size());
  const uint64_t last = bytes.size() - place_bytes;
  // The places begin at pages, so that each is one read; the last one ends where the file ends.
  for (uint64_t i = 0; i + 1 < places; ++i) {
    add(sample, bytes, last / (places - 1) * i / place_bytes * place_bytes, place_bytes);
  }
  add(sample, bytes, last, place_bytes);
}

std::vector<std::string> all_corpora(const TextConfig& config, const std::vector<TextPhase>& phases) {
  std::vector<std::string> names = training_corpora(config, phases);
  names.insert(names.end(), config.validation.begin(), config.validation.end());
  return names;
}

// Compares device and inode, which are the same for every spelling of a path and for links.
void check_distinct(const std::vector<std::string>& names) {
  std::map<std::pair<dev_t, ino_t>, std::string> seen;
  for (const std::string& name : names) {
    struct stat status {};
    if (::stat(corpus_files(name).front().c_str(), &status) != 0) continue;
    const auto [other, first] = seen.emplace(std::pair{status.st_dev, status.st_ino}, name);
    if (first) continue;
    throw UserError::of(
        "data.train and data.validation name the same files twice, as {} and as {}; name a corpus once, and by the "
        "same name in every phase (data.weights "
        "gives it a larger part of training, data.validation_share holds out a part of it)",
        other->second, name);
  }
}

struct RecordedCorpus {
  std::string name;
  CorpusRecord record;
};

std::vector<RecordedCorpus> recorded_corpora(const std::vector<std::string>& names) {
  std::vector<RecordedCorpus> recorded;
  for (const std::string& name : names) {
    if (auto record = read_corpus_record(name)) recorded.push_back({name, std::move(*record)});
  }
  return recorded;
}

// The token before documents must be the one that stands before prompts and that an export names.
void check_begin_tokens(const TextConfig& config, const std::vector<RecordedCorpus>& recorded) {
  if (config.train.empty()) return;
  const auto begins = [](const RecordedCorpus& corpus) { return corpus.record.begin_token >= 0; };
  if (config.begin_token.empty() && std::ranges::none_of(recorded, begins)) return;
  const auto tokenizer = Tokenizer::open(config.tokenizer);
  const int64_t named =
      config.begin_token.empty() ? -1 : tokenizer->token_named("data.begin_token", config.begin_token);
  for (const auto& [name, record] : recorded) {
    if (record.begin_token == named) continue;
    if (record.begin_token < 0) {
      log_warning(
          "corpus {} has no token {} (data.begin_token) before its documents, but terrace generate and exports put it "
          "before texts: prepare it with --begin-token {}, or set data.begin_token = \"\"",
          name, named, named);
      continue;
    }
    throw UserError::of(
        "corpus {} has token {} before each document, and data.begin_token is {}: set data.begin_token = \"{}\", so "
        "that "
        "terrace generate and exports begin texts in the same way",
        name, record.begin_token, named < 0 ? "not set" : fmt::format("token {}", named), record.begin_token);
  }
}

}  // namespace

std::string TokenizerRecord::text() const {
  return fmt::format("{} ({}, {} tokens)", checksum.substr(0, shown_digits), kind, vocabulary);
}

TokenizerRecord record_tokenizer(std::string_view bytes, int64_t vocabulary) {
  const bool json = tokenizer_file_name(bytes) == std::string_view("tokenizer.json");
  return {.checksum = checksum(std::as_bytes(std::span(bytes))),
          .kind = json ? "byte_pair" : "sentencepiece",
          .vocabulary = vocabulary};
}

void members_of(auto& json, MaybeConst<TokenizerRecord> auto& one) {
  json("checksum", one.checksum)("kind", one.kind)("vocabulary", one.vocabulary);
}

void members_of(auto& json, MaybeConst<CorpusRecord> auto& one) {
  json("fingerprint", one.fingerprint)("tokenizer", one.tokenizer);
  if (json.has("checksums", !one.bin_checksum.empty())) {
    json.object("checksums", [&](auto& of) { of("bin", one.bin_checksum)("idx", one.index_checksum); });
  }
  if (json.has("begin_token", one.begin_token >= 0)) json("begin_token", one.begin_token);
}

std::string CorpusRecord::json() const {
  Json json = {{"format", record_format}};
  json.update(json_of_record(*this));
  return json.dump(2) + "\n";
}

fs::path record_path(const std::string& prefix) { return prefix + ".corpus.json"; }

std::optional<CorpusRecord> read_corpus_record(const std::string& prefix) {
  const fs::path path = record_path(prefix);
  if (!fs::exists(path)) return std::nullopt;
  const auto refuse = [&](const std::string& reason) {
    return UserError::of(
        "{0} is no record of a corpus ({1}); make the corpus again with: terrace data prepare INPUT... --output {2} "
        "--overwrite, or remove {0} if {2}.bin and {2}.idx are known to be good",
        path.string(), reason, prefix);
  };
  try {
    const Json json = parse_json(read_text(path));
    const auto format = json.at("format").get<int64_t>();
    if (format != record_format) {
      throw refuse(fmt::format("format {}, where this program knows {}", format, record_format));
    }
    return record_of<CorpusRecord>(json);
  } catch (const Json::exception& error) {
    throw refuse(error.what());
  }
}

std::string corpus_fingerprint(std::span<const std::byte> index, std::span<const std::byte> bin) {
  std::vector<std::byte> sample;
  const std::array<uint64_t, 2> sizes{index.size(), bin.size()};
  const auto size_bytes = std::as_bytes(std::span(sizes));
  sample.insert(sample.end(), size_bytes.begin(), size_bytes.end());
  add(sample, index, 0, end_bytes);
  add(sample, index, index.size() - std::min<uint64_t>(end_bytes, index.size()), end_bytes);
  add_places(sample, index);
  add_places(sample, bin);
  return checksum(sample);
}

std::string corpus_fingerprint(const std::string& name) {
  const std::vector<fs::path> files = corpus_files(name);
  const MappedFile bin(files.front()), index = files.size() > 1 ? MappedFile(files[1]) : MappedFile();
  bin.expect_random_reads();
  index.expect_random_reads();
  return corpus_fingerprint(index.bytes(), bin.bytes());
}

std::string checksum_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> part(size_t{1} << 20);
  while (file) {
    file.read(part.data(), std::ssize(part));
    XXH3_64bits_update(state.get(), part.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) throw UserError::of("cannot read {}", path.string());
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

bool verify_corpus(const std::string& prefix) {
  const std::optional<CorpusRecord> record = read_corpus_record(prefix);
  if (!record || record->bin_checksum.empty()) return false;
  const auto check = [&](const fs::path& path, const std::string& known) {
    if (checksum_of_file(path) == known) return;
    throw UserError::of("{} has another checksum than {} says; it is damaged, so copy it again", path.string(),
                        record_path(prefix).string());
  };
  check(bin_path(prefix), record->bin_checksum);
  check(index_path(prefix), record->index_checksum);
  return true;
}

void check_tokenizer_of(const std::string& corpus, const TokenizerRecord& record, const fs::path& tokenizer,
                        std::string_view bytes) {
  const std::string found = checksum(std::as_bytes(std::span(bytes)));
  if (found == record.checksum) return;
  throw UserError::of(
      "corpus {0} was made with tokenizer {1}, and {2} is {3}: its tokens would be taken for other text. Give the "
      "tokenizer that made it, or make it again: terrace data prepare INPUT... --tokenizer {2} --output {0} "
      "--overwrite",
      corpus, record.text(), tokenizer.string(), found.substr(0, TokenizerRecord::shown_digits));
}

void check_corpora_of_run(const TextConfig& config, const std::vector<TextPhase>& phases) {
  const std::vector<std::string> names = all_corpora(config, phases);
  check_distinct(names);
  for (const TextPhase& phase : phases) check_distinct(phase.train);
  const std::vector<RecordedCorpus> recorded = recorded_corpora(names);
  if (recorded.empty()) return;
  const RecordedCorpus& first = recorded.front();
  for (const RecordedCorpus& corpus : recorded) {
    if (corpus.record.tokenizer.checksum == first.record.tokenizer.checksum) continue;
    throw UserError::of(
        "corpora of different tokenizers in one run: {} was made with {}, {} with {}; make one of them again with the "
        "other's tokenizer: terrace data prepare INPUT... --tokenizer MODEL --output {} --overwrite",
        first.name, first.record.tokenizer.text(), corpus.name, corpus.record.tokenizer.text(), corpus.name);
  }
  if (config.tokenizer.empty() || !fs::exists(config.tokenizer)) return;
  check_tokenizer_of(first.name, first.record.tokenizer, config.tokenizer, read_text(config.tokenizer));
  check_begin_tokens(config, recorded);
}

}  // namespace terrace::data
