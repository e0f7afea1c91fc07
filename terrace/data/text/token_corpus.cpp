// Opens the pair of files and converts tokens to int64.
#include "terrace/data/text/token_corpus.h"

#include <cstring>

#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/text/json_record.h"
#include "terrace/data/text/token_file.h"

namespace terrace::data {
namespace {

template <typename T>
void widen(const std::byte* from, std::span<int64_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int64_t>(value);
  }
}

}  // namespace

void members_of(auto& json, MaybeConst<CorpusIndex::Header> auto& one) {
  json("type", one.type)("sequences", one.sequences)("documents", one.documents)("tokens", one.tokens);
}

std::filesystem::path bin_path(const std::string& prefix) { return prefix + ".bin"; }
std::filesystem::path index_path(const std::string& prefix) { return prefix + ".idx"; }

std::vector<std::filesystem::path> corpus_files(const std::string& name) {
  if (name.ends_with(".bin")) return {name};
  return {bin_path(name), index_path(name)};
}

TokenCorpus::TokenCorpus(const std::string& name, CorpusIndex::Check check) : files_(corpus_files(name)) {
  if (name.ends_with(".bin")) {
    open_token_file(name);
  } else {
    open_pair(name, check);
  }
}

void TokenCorpus::open_token_file(const std::string& name) {
  const std::string prefix = name.substr(0, name.size() - 4);
  if (!std::filesystem::exists(name)) throw UserError::of("there is no corpus {}: the file does not exist", name);
  if (std::filesystem::exists(index_path(prefix))) {
    throw UserError::of("{0} is one of the two files of a corpus, with {1}.idx; give the name without .bin: {1}", name,
                        prefix);
  }
  bin_ = MappedFile(name);
  const std::string index = found_in(files_, "the index of a token file", [&] {
    const std::vector<std::byte> made = index_of(parse_token_file(bin_.bytes(), name));
    return std::string(reinterpret_cast<const char*>(made.data()), made.size());
  });
  tokens_ = bin_.bytes().subspan(token_file_header_bytes);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(index));
  made_index_.assign(bytes.begin(), bytes.end());
  index_ = CorpusIndex::parse(made_index_, tokens_.size(), name, CorpusIndex::Check::sampled);
  fingerprint_ = found_in(files_, "fingerprint", [&] { return corpus_fingerprint({}, bin_.bytes()); });
}

void TokenCorpus::parse_pair(const std::string& prefix, CorpusIndex::Check check) {
  index_ = CorpusIndex::parse(index_file_.bytes(), bin_.bytes().size(), index_path(prefix).string(), check);
  fingerprint_ = corpus_fingerprint(index_file_.bytes(), bin_.bytes());
}

void TokenCorpus::open_pair(const std::string& prefix, CorpusIndex::Check check) {
  const bool bin = std::filesystem::exists(bin_path(prefix)), index = std::filesystem::exists(index_path(prefix));
  if (!bin && !index) {
    const bool suffix = std::filesystem::exists(prefix) && prefix.ends_with(".idx");
    throw UserError::of("there is no corpus {0}: neither {0}.bin nor {0}.idx exists; {1}", prefix,
                        suffix ? "give the name without " + prefix.substr(prefix.size() - 4)
                               : "make one with: terrace data prepare INPUT... --output " + prefix);
  }
  if (!bin || !index) {
    throw UserError::of(
        "corpus {0} is incomplete: {0}.{1} is missing, as after an interrupted terrace data prepare; run it "
        "again",
        prefix, bin ? "idx" : "bin");
  }
  bin_ = MappedFile(bin_path(prefix));
  index_file_ = MappedFile(index_path(prefix));
  tokens_ = bin_.bytes();
  if (check == CorpusIndex::Check::all) {
    parse_pair(prefix, check);
  } else {
    expect_random_reads();  // the fingerprint reads in random order too
    const Json found = Json::parse(found_in(files_, "the index of a corpus", [&] {
      parse_pair(prefix, check);
      Json json = json_of_record(index_.header());
      json["fingerprint"] = fingerprint_;
      return json.dump();
    }));
    index_ =
        CorpusIndex::known(index_file_.bytes(), record_of<CorpusIndex::Header>(found), index_path(prefix).string());
    fingerprint_ = found.at("fingerprint").get<std::string>();
  }
  record_ = read_corpus_record(prefix);
  if (!record_ || record_->fingerprint == fingerprint_) return;
  throw UserError::of(
      "corpus {0} is mixed up: {1} was not written with these {0}.bin and {0}.idx, as after a copy of a part of the "
      "files or a killed terrace data prepare; make the corpus again, or put the three files of one run together",
      prefix, record_path(prefix).string());
}

void TokenCorpus::read(uint64_t first, std::span<int64_t> to, int64_t vocabulary, const StagedReader* staged) const {
  TERRACE_CHECK(first <= tokens() && to.size() <= tokens() - first, "tokens {} + {} of {}", first, to.size(), tokens());
  if (staged == nullptr) expect(first, to.size());
  NumbersAtHand at_hand(staged);
  const std::byte* from = at_hand(bin_, bytes_of(first, to.size())).data();
  switch (index_.type()) {
    case TokenType::uint8:
      widen<uint8_t>(from, to);
      break;
    case TokenType::int8:
      widen<int8_t>(from, to);
      break;
    case TokenType::int16:
      widen<int16_t>(from, to);
      break;
    case TokenType::uint16:
      widen<uint16_t>(from, to);
      break;
    case TokenType::int32:
      widen<int32_t>(from, to);
      break;
    case TokenType::int64:
      widen<int64_t>(from, to);
      break;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] >= 0 && to[i] < vocabulary) continue;
    throw UserError::of(
        "{}: token {} at position {} is not below the vocabulary of {}; give the vocabulary of the tokenizer "
        "that made the corpus, or make it again with the other tokenizer",
        bin_.path().string(), to[i], first + i, vocabulary);
  }
}

}  // namespace terrace::data
