// Samples text and trains SentencePiece with fixed settings.
#include "terrace/data/text/tokenizer/tokenizer_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/data/text/tokenizer/byte_pair/merge_log.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr size_t longest_piece = 2048;
constexpr std::string_view unknown_mark = "\xE2\x96\x85";  // U+2585, which SentencePiece's trainer keeps for itself

// Returns the number of bytes at the start that may be trained on: valid UTF-8 without control characters (except
// newlines) and without SentencePiece's own marks.
size_t trainable_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) break;
    const size_t length = character_length(text.substr(at, 4));
    const std::string_view character = text.substr(at, length);
    if (length == 0 || character == space_mark || character == unknown_mark) break;
    at += length;
  }
  return at;
}

size_t piece_length(std::string_view text) {
  const bool newlines = text.front() == '\n';
  const size_t end = newlines ? text.find_first_not_of('\n') : text.find('\n');
  const size_t length = std::min(end, text.size());
  if (length <= longest_piece) return length;
  const size_t space = text.substr(0, longest_piece).rfind(' ');
  if (space != std::string_view::npos && space > 0) return space;
  const size_t whole = whole_characters(text.substr(0, longest_piece));
  return whole > 0 ? whole : longest_piece;
}

class PieceIterator : public sentencepiece::SentenceIterator {
 public:
  explicit PieceIterator(const std::vector<std::string>& pieces) : pieces_(pieces) {}
  bool done() const override { return at_ >= pieces_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return pieces_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& pieces_;
  size_t at_ = 0;
};

// At most a file's share of this multiple of the sample is read of each file.
constexpr uint64_t read_for_sample = 8;

TextSample sample_text(const std::vector<InputFile>& files, const BlockRules& rules,
                       const TokenizerTraining& training) {
  double disk_bytes = 0, read_bytes = 0;
  for (const InputFile& file : files) disk_bytes += static_cast<double>(file.bytes);
  const auto quota_of = [&](const InputFile& file) {
    const double share = static_cast<double>(file.bytes) / std::max(1.0, disk_bytes);
    const auto all = static_cast<double>(read_for_sample * training.sample_bytes);
    return std::max(share * all, static_cast<double>(rules.block_bytes));
  };
  const auto to_read = [&](const InputFile& file) {
    return static_cast<uint64_t>(std::min(static_cast<double>(file.bytes), quota_of(file)));
  };
  for (const InputFile& file : files) read_bytes += static_cast<double>(to_read(file));
  TextSample sample(training.sample_bytes);
  TextBlocks blocks(files, rules);
  Progress progress("reading for the tokenizer", static_cast<uint64_t>(read_bytes));
  const InputFile* current = nullptr;
  uint64_t done = 0;  // of the files before
  while (const auto block = blocks.next()) {
    if (current != nullptr && current != block->file) done += to_read(*current);
    current = block->file;
    for_each_text(*block, rules, [&](std::string_view text, bool, bool) { sample.add(text); });
    progress.update(done + std::min(to_read(*current), blocks.file_bytes_read()));
    if (static_cast<double>(blocks.file_bytes_read()) > quota_of(*current)) blocks.skip_file();
  }
  return sample;
}

}  // namespace

void TextSample::add(std::string_view text) {
  while (!text.empty()) {
    const size_t trainable = trainable_length(text);
    for (std::string_view rest = text.substr(0, trainable); !rest.empty();) {
      const size_t length = piece_length(rest);
      add_piece(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    text.remove_prefix(trainable == text.size() ? trainable : trainable + 1);
  }
}

void TextSample::add_piece(std::string_view piece) {
  const uint32_t number = philox_at(stream_key(0, "tokenizer sample"), drawn_++, 0)[0];
  if (number >= bound_) return;
  pieces_.emplace_back(piece);
  numbers_.push_back(number);
  bytes_ += piece.size();
  while (bytes_ > limit_bytes_) {
    bound_ /= 2;
    size_t kept = 0;
    bytes_ = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (numbers_[i] >= bound_) continue;
      bytes_ += pieces_[i].size();
      if (kept != i) pieces_[kept] = std::move(pieces_[i]);
      numbers_[kept++] = numbers_[i];
    }
    pieces_.resize(kept);
    numbers_.resize(kept);
  }
}

namespace {

// Returns the number behind the text, or "" where there is none.
std::string number_behind(const std::string& reason, std::string_view text) {
  const size_t found = reason.find(text);
  if (found == std::string::npos) return "";
  const size_t begin = found + text.size();
  return reason.substr(begin, reason.find_first_not_of("0123456789", begin) - begin);
}

// Returns a reason in terrace's words, since the library's reasons name its own options.
std::string training_refusal(int64_t vocabulary, const std::string& reason) {
  if (const std::string least = number_behind(reason, " vs "); !least.empty()) {
    return fmt::format(
        "--vocabulary {} is too small: the characters of this text, the 256 bytes and the control tokens are {}; give "
        "--vocabulary {} or more",
        vocabulary, least, least);
  }
  if (const std::string most = number_behind(reason, "value <= "); !most.empty()) {
    return fmt::format(
        "--vocabulary {} is too large: this text gives at most {} tokens; give --vocabulary {} or less, or more text",
        vocabulary, most, most);
  }
  return fmt::format(
      "a tokenizer of {} tokens cannot be trained on this input: {}; choose another --vocabulary or give more text",
      vocabulary, reason);
}

}  // namespace

std::string train_tokenizer(const std::vector<InputFile>& files, const BlockRules& rules,
                            const TokenizerTraining& training) {
  constexpr int64_t reserved = 256 + 2;  // bytes, <unk> and </s>
  if (training.vocabulary <= reserved) {
    throw UserError::of("--vocabulary {} is too small: the bytes and control tokens alone are {}; give at least {}",
                        training.vocabulary, reserved, 2 * reserved);
  }
  for (const InputFile& file : files) {
    // The corpus is read twice, and a pipe gives its bytes once.
    if (!std::filesystem::is_regular_file(file.path)) {
      throw UserError::of(
          "{} is no regular file, and a tokenizer can be trained on those only; give --tokenizer, or write "
          "the text to a file first",
          file.path.string());
    }
  }
  const TextSample sample = sample_text(files, rules, training);
  if (sample.pieces().empty()) throw UserError("the input holds no text to train a tokenizer on");
  PieceIterator pieces(sample.pieces());
  std::string model;
  Progress progress("training the tokenizer", static_cast<uint64_t>(merge_work(training.vocabulary, sample.bytes())));
  const MergeLog log(
      [&](int64_t merges) { progress.update(static_cast<uint64_t>(merge_work(merges, sample.bytes()))); });
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", "bpe"},
       {"vocab_size", std::to_string(training.vocabulary)},
       {"byte_fallback", "true"},
       {"normalization_rule_name", "identity"},
       {"add_dummy_prefix", "false"},
       {"remove_extra_whitespaces", "false"},
       {"allow_whitespace_only_pieces", "true"},
       {"split_digits", "true"},
       {"character_coverage", "0.9999"},
       {"unk_id", "0"},
       {"eos_id", "1"},
       {"bos_id", "-1"},
       {"pad_id", "-1"},
       {"num_threads", "1"},   // kept in the model; more would speed up nothing but the reading
       {"minloglevel", "0"}},  // MergeLog reads it
      &pieces, &model);
  if (!status.ok()) {
    // The library puts its source line and the failed condition in brackets before the reason.
    const std::string all = status.ToString();
    const size_t bracket = all.rfind("] ");
    const std::string reason = bracket == std::string::npos ? all : all.substr(bracket + 2);
    throw UserError(training_refusal(training.vocabulary, reason));
  }
  return model;
}

}  // namespace terrace::data
