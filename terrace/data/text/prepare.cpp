// Encodes blocks of text on all cores and writes them in order.
#include "terrace/data/text/prepare.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>

#include "terrace/base/cores.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/log.h"
#include "terrace/base/plural.h"
#include "terrace/base/progress.h"
#include "terrace/base/temporary_name.h"
#include "terrace/base/units.h"
#include "terrace/data/ordered_map.h"
#include "terrace/data/text/check_inputs.h"
#include "terrace/data/text/corpus_writer.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer.h"
#include "terrace/data/text/tokenizer_training.h"
#include "terrace/data/text/unigram_store.h"

namespace terrace::data {
namespace {

// The tokens of one block; `ends` are the positions after the end tokens of documents.
struct EncodedBlock {
  std::vector<int32_t> tokens;
  std::vector<size_t> ends;
  uint64_t text_bytes = 0, empty_documents = 0, changed_parts = 0;
  EncodeCounts counts;
  std::vector<MalformedLine> malformed;
};

// One per thread.
class BlockEncoder {
 public:
  BlockEncoder(const Tokenizer& tokenizer, const BlockRules& rules)
      : tokenizer_(tokenizer), rules_(rules), encoder_(tokenizer.make_encoder()) {}

  EncodedBlock encode(const TextBlock& block) {
    EncodedBlock encoded;
    const EncodeCounts before = encoder_->counts();
    encoded.malformed = for_each_text(block, rules_, [&](std::string_view text, bool starts, bool ends) {
      encode_part(text, starts, ends, encoded);
    });
    const EncodeCounts& after = encoder_->counts();
    encoded.counts = {after.invalid_bytes - before.invalid_bytes, after.space_marks - before.space_marks,
                      after.unknown_tokens - before.unknown_tokens};
    return encoded;
  }

 private:
  void encode_part(std::string_view text, bool starts, bool ends, EncodedBlock& encoded) {
    if (starts && ends && text.empty()) {
      ++encoded.empty_documents;
      return;
    }
    const size_t first = encoded.tokens.size();
    encoder_->encode(text, starts, encoded.tokens);
    encoded.text_bytes += text.size();
    if (!decodes_to(text, std::span(encoded.tokens).subspan(first), starts)) ++encoded.changed_parts;
    if (!ends) return;
    encoded.tokens.push_back(tokenizer_.end_token());
    encoded.ends.push_back(encoded.tokens.size());
  }

  // decode() drops the dummy prefix, which only a document's first part has.
  bool decodes_to(std::string_view text, std::span<const int32_t> ids, bool starts) const {
    if (starts) return tokenizer_.decode(ids) == text;
    for (int32_t id : ids) {
      const std::string_view piece = tokenizer_.text_of(id);
      if (!text.starts_with(piece)) return false;
      text.remove_prefix(piece.size());
    }
    return text.empty();
  }

  const Tokenizer& tokenizer_;
  const BlockRules& rules_;
  std::unique_ptr<TextEncoder> encoder_;
};

void check_options(const PrepareOptions& options) {
  if (options.output.empty()) throw UserError("no output; give --output PREFIX");
  if (options.tokenizer.empty()) {
    throw UserError("no tokenizer; give --tokenizer MODEL, or --train-tokenizer MODEL with --vocabulary N");
  }
  // These checks come before the training of a tokenizer, which takes minutes.
  if (!options.overwrite) CorpusWriter::check_absent(options.output);
  if (options.train && !options.overwrite && std::filesystem::exists(options.tokenizer)) {
    throw UserError::of("{} exists; use it with --tokenizer, or give --overwrite to train it again", options.tokenizer);
  }
  if (options.train && std::filesystem::is_directory(options.tokenizer)) {
    throw UserError::of("{} is a folder; give --train-tokenizer the name of a file", options.tokenizer);
  }
  if (options.threads < 0) throw UserError::of("threads = {}; give 0 for one per core, or more", options.threads);
  if (options.rules.separator && options.rules.separator->find('\n') != std::string::npos) {
    throw UserError("a separator is one line and cannot hold a newline");
  }
}

void check_stop(const PrepareOptions& options) {
  if (options.stop != nullptr && *options.stop) {
    throw UserError(fmt::format("interrupted; nothing was written to {}.bin and .idx", options.output),
                    ExitCode::failure);
  }
}

// The tokenizer of a run. A trained tokenizer has a temporary name until its corpus is complete.
struct RunTokenizer {
  std::unique_ptr<const Tokenizer> tokenizer;
  TokenizerRecord record;
  std::unique_ptr<AtomicFile> trained;
};

RunTokenizer make_tokenizer(const PrepareOptions& options, const std::vector<InputFile>& files) {
  RunTokenizer made;
  std::string model;
  if (options.train) {
    remove_abandoned_partials(options.tokenizer);
    made.trained = std::make_unique<AtomicFile>(options.tokenizer);
    log_info("training a tokenizer of {} tokens", options.vocabulary);
    model =
        train_tokenizer(files, options.rules, {.vocabulary = options.vocabulary, .sample_bytes = options.sample_bytes});
    made.trained->write(model);
    made.trained->sync();
  } else {
    model = read_text(options.tokenizer);
  }
  made.tokenizer = Tokenizer::from_bytes(model, options.tokenizer);
  made.record = record_tokenizer(model, made.tokenizer->vocabulary());
  if (made.tokenizer->end_token() < 0) {
    throw UserError::of(
        "{} has no end token (</s>, <|endoftext|> or the like) to close documents with; train one that has, such as "
        "with --train-tokenizer",
        options.tokenizer);
  }
  return made;
}

// Writes encoded blocks in order.
class Sink {
 public:
  Sink(const PrepareOptions& options, CorpusWriter& writer, PrepareReport& report)
      : options_(options), writer_(writer), report_(report) {}

  void take(const EncodedBlock& block) {
    size_t begin = 0;
    const std::span<const int32_t> tokens = block.tokens;
    for (size_t end : block.ends) {
      writer_.append(tokens.subspan(begin, end - begin));
      writer_.end_document();
      begin = end;
    }
    writer_.append(tokens.subspan(begin));
    report_.text_bytes += block.text_bytes;
    report_.empty_documents += block.empty_documents;
    report_.changed_parts += block.changed_parts;
    report_.counts += block.counts;
    for (const MalformedLine& line : block.malformed) note(line);
    if (report_.malformed_lines > options_.max_malformed) {
      throw_malformed(report_.malformed_lines, options_.max_malformed, report_.first_malformed);
    }
  }

 private:
  void note(const MalformedLine& line) {
    ++report_.malformed_lines;
    if (report_.first_malformed.size() >= malformed_shown) return;
    report_.first_malformed.push_back(line);
    log_warning("{}:{}: malformed: {}", line.file, line.line, line.reason);
  }

  const PrepareOptions& options_;
  CorpusWriter& writer_;
  PrepareReport& report_;
};

void encode_all(const PrepareOptions& options, const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                CorpusWriter& writer, PrepareReport& report) {
  BlockRules rules = options.rules;
  rules.cut = [&](std::string_view text) { return tokenizer.cut(text); };
  TextBlocks blocks(files, rules);
  uint64_t disk_bytes = 0;
  for (const InputFile& file : files) disk_bytes += file.bytes;
  Progress progress("tokenizing", disk_bytes);
  Sink sink(options, writer, report);
  std::deque<uint64_t> read_by;  // bytes on disk up to the end of each block that is being encoded
  ordered_map<TextBlock, EncodedBlock>(
      report.threads,
      [&] {
        check_stop(options);
        auto block = blocks.next();
        if (block) read_by.push_back(blocks.disk_bytes_read());
        return block;
      },
      [&]() -> std::function<EncodedBlock(TextBlock&)> {
        auto encoder = std::make_shared<BlockEncoder>(tokenizer, rules);
        return [encoder](TextBlock& block) { return encoder->encode(block); };
      },
      [&](EncodedBlock& block) {
        check_stop(options);
        sink.take(block);
        // Blocks that are only read do not count: they would make the estimate of the first minute too short.
        progress.update(read_by.front(), fmt::format("{} tokens", format_count(static_cast<int64_t>(writer.tokens()))));
        read_by.pop_front();
      });
}

}  // namespace

std::string output_prefix(const std::string& output) {
  const bool has_ending = output.ends_with(".bin") || output.ends_with(".idx");
  const std::string prefix = has_ending ? output.substr(0, output.size() - 4) : output;
  return prefix.empty() || prefix.ends_with('/') ? output : prefix;
}

PrepareReport prepare(const PrepareOptions& options) {
  check_options(options);
  const std::vector<std::filesystem::path> outputs{bin_path(options.output), index_path(options.output),
                                                   record_path(options.output), unigram_path(bin_path(options.output)),
                                                   options.tokenizer};
  const std::vector<InputFile> files = find_input_files(options.inputs, options.format, outputs, options.patterns);
  check_inputs(files, options.rules, options.max_malformed, [&] { check_stop(options); });
  PrepareReport report;
  report.files = files.size();
  report.threads = options.threads > 0 ? options.threads : static_cast<int>(usable_cores());
  const RunTokenizer made = make_tokenizer(options, files);
  report.vocabulary = made.tokenizer->vocabulary();
  CorpusWriter writer(options.output, report.vocabulary, {.overwrite = options.overwrite, .tokenizer = made.record});
  report.type = writer.type();
  const auto began = std::chrono::steady_clock::now();
  encode_all(options, files, *made.tokenizer, writer, report);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  report.documents = writer.documents();
  report.tokens = writer.tokens();
  if (report.documents == 0) throw UserError("the input holds no text; nothing was written");
  check_stop(options);
  writer.commit(made.trained.get());
  return report;
}

std::vector<std::string> PrepareReport::warnings() const {
  std::vector<std::string> lines;
  const auto add = [&](uint64_t count, std::string_view one, std::string_view several, std::string_view what) {
    if (count > 0) lines.push_back(fmt::format("{} {}", counted(count, one, several), what));
  };
  add(malformed_lines, "malformed line was", "malformed lines were", "left out");
  add(empty_documents, "empty document was", "empty documents were", "left out");
  add(counts.invalid_bytes, "byte outside of UTF-8 was", "bytes outside of UTF-8 were", "escaped as byte tokens");
  add(counts.space_marks, "character U+2581 was", "characters U+2581 were", "escaped as byte tokens");
  add(counts.unknown_tokens, "character is", "characters are",
      "unknown to the tokenizer and lost; one with byte fallback keeps them");
  add(changed_parts, "part of a document does", "parts of documents do",
      "not decode to the same bytes: the tokenizer normalises or lacks characters");
  return lines;
}

Json PrepareReport::json() const {
  Json malformed = Json::array();
  for (const MalformedLine& line : first_malformed) {
    malformed.push_back({{"file", line.file}, {"line", line.line}, {"reason", line.reason}});
  }
  return {{"files", files},
          {"documents", documents},
          {"tokens", tokens},
          {"text_bytes", text_bytes},
          {"vocabulary", vocabulary},
          {"token_type", token_type_name(type)},
          {"empty_documents", empty_documents},
          {"malformed_lines", malformed_lines},
          {"first_malformed", malformed},
          {"invalid_bytes", counts.invalid_bytes},
          {"space_marks", counts.space_marks},
          {"unknown_tokens", counts.unknown_tokens},
          {"changed_parts", changed_parts},
          {"threads", threads},
          {"seconds", seconds}};
}

}  // namespace terrace::data
