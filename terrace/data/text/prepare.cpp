// Encodes each rank's input files on its cores, and joins what they give in the order of the files.
#include "terrace/data/text/prepare.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/data/file_parts.h"
#include "terrace/data/ordered_map.h"
#include "terrace/data/preparation_run.h"
#include "terrace/data/text/block_encoder.h"
#include "terrace/data/text/check_inputs.h"
#include "terrace/data/text/corpus_writer.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/data/text/tokenizer/tokenizer_training.h"
#include "terrace/data/text/unigram_store.h"

namespace terrace::data {
namespace {

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

// Several processes would each read a part of a pipe.
void check_shareable(const std::vector<InputFile>& files, int64_t ranks) {
  for (const InputFile& file : files) {
    if (ranks == 1 || std::filesystem::is_regular_file(file.path)) continue;
    throw UserError::of(
        "input {} is a pipe, which {} processes cannot share; write the text to a file first, or "
        "prepare it by one process",
        file.path.string(), ranks);
  }
}

std::string digest_of(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return checksum(std::as_bytes(std::span(text)));
}

Json json_of_rules(const BlockRules& rules) {
  return {rules.field, rules.separator.value_or(""), rules.separator.has_value(), rules.block_bytes,
          rules.max_line_bytes};
}

// The tokenizer of a run. A trained tokenizer has a temporary name until its corpus is complete.
struct RunTokenizer {
  std::string model = {}, training = {};  // the bytes, and what they were trained on
  std::unique_ptr<const Tokenizer> tokenizer = {};
  DocumentTokens document = {};
  TokenizerRecord record = {};
  std::unique_ptr<AtomicFile> trained = {};
};

// Returns the model that was trained for a preparation that is resumed; "" where there is none for this training.
std::string model_left(const std::filesystem::path& folder, const std::string& training) {
  const std::filesystem::path model = folder / "tokenizer", of = folder / "training";
  const bool is_there = std::filesystem::exists(model) && std::filesystem::exists(of);
  return is_there && read_text(of) == training ? read_text(model) : "";
}

DocumentTokens document_tokens(const PrepareOptions& options, const Tokenizer& tokenizer) {
  DocumentTokens document{.end = tokenizer.end_token(), .special = options.special_tokens};
  if (!options.begin_token.empty()) document.begin = tokenizer.token_named("--begin-token", options.begin_token);
  if (!options.end_token.empty()) document.end = tokenizer.token_named("--end-token", options.end_token);
  if (document.end >= 0) return document;
  constexpr size_t shown = 8;
  const std::vector<std::string>& names = tokenizer.special_names();
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(shown, names.size()));
  throw UserError::of(
      "{} does not say which token closes documents (</s>, <|endoftext|> or the like); name one with --end-token, by "
      "its text or its number{}",
      options.tokenizer,
      names.empty() ? ""
                    : fmt::format(": its {} are {}{}", counted(names.size(), "control token"), fmt::join(first, ", "),
                                  names.size() > shown ? ", ..." : ""));
}

RunTokenizer make_tokenizer(const PrepareOptions& options, const std::vector<InputFile>& files,
                            const std::vector<PartInput>& inputs) {
  RunTokenizer made;
  if (options.train) {
    Json of = {options.vocabulary, options.sample_bytes, json_of_rules(options.rules)};
    for (const PartInput& input : inputs) of.push_back(input.identity);
    made.training = digest_of(of);
    remove_abandoned_partials(options.tokenizer);
    made.trained = std::make_unique<AtomicFile>(options.tokenizer);
    if (options.resume) made.model = model_left(FileParts::folder_of(options.output), made.training);
    if (made.model.empty()) {
      log_info("training a tokenizer of {} tokens", options.vocabulary);
      made.model = train_tokenizer(files, options.rules,
                                   {.vocabulary = options.vocabulary, .sample_bytes = options.sample_bytes});
    }
    made.trained->write(made.model);
    made.trained->sync();
  } else {
    made.model = read_text(options.tokenizer);
  }
  made.tokenizer = Tokenizer::from_bytes(made.model, options.tokenizer);
  made.record = record_tokenizer(made.model, made.tokenizer->vocabulary());
  made.document = document_tokens(options, *made.tokenizer);
  return made;
}

// Runs one preparation, step by step.
class TextRun {
 public:
  explicit TextRun(const PrepareOptions& options)
      : options_(options),
        run_(options.ranks, options.threads, options.stop),
        ranks_(run_.ranks()),
        parts_(ranks_, options.output, token_channels(), options.seconds_between_records) {
    run_.writes(options.output + ".bin and .idx; --resume continues behind the input files that were finished");
  }

  PrepareReport run() {
    run_.make_of_parts(
        parts_,
        {.begin = [&] { begin(); }, .join = [&] { join(); }, .work = [&] { encode(); }, .finish = [&] { finish(); }});
    return report_;
  }

 private:
  // Begins on the first rank.
  void begin() {
    check_options(options_);
    const std::vector<std::filesystem::path> outputs{bin_path(options_.output), index_path(options_.output),
                                                     record_path(options_.output),
                                                     unigram_path(bin_path(options_.output)), options_.tokenizer};
    files_ = find_input_files(options_.inputs, options_.format, outputs, options_.patterns);
    check_shareable(files_, ranks_.size());
    say_what_folders_hold();
    check_inputs(files_, options_.rules, options_.max_malformed, [&] { run_.check_stop(); });
    std::vector<PartInput> inputs;
    std::vector<int> formats;
    for (const InputFile& file : files_) {
      inputs.push_back(part_input(file.path));
      formats.push_back(static_cast<int>(file.format));
    }
    made_ = make_tokenizer(options_, files_, inputs);
    writer_.emplace(
        options_.output, made_.tokenizer->vocabulary(),
        CorpusWriter::Options{
            .overwrite = options_.overwrite, .tokenizer = made_.record, .begin_token = made_.document.begin});
    // In version 1 the ids of SentencePiece models without a free guard character, and of texts of control tokens, were
    // others.
    Json identity = {"tokens",
                     2,
                     made_.record.checksum,
                     json_of_rules(options_.rules),
                     static_cast<int>(options_.format),
                     made_.document.end,
                     static_cast<int>(made_.document.special)};
    if (made_.document.begin >= 0) identity.push_back({"begin", made_.document.begin});
    parts_.begin({.identity = digest_of(identity),
                  .inputs = std::move(inputs),
                  .more = {{"formats", formats}, {"tokenizer", made_.record.checksum}}},
                 options_.resume);
    if (!options_.train) return;
    write_text_atomically(parts_.folder() / "tokenizer", made_.model);
    write_text_atomically(parts_.folder() / "training", made_.training);
  }

  // Drawings and programs are text too, and would be learned from.
  void say_what_folders_hold() const {
    const bool has_folder = std::ranges::any_of(
        options_.inputs, [](const std::string& input) { return std::filesystem::is_directory(input); });
    const std::string endings = has_folder && options_.patterns.include.empty() ? endings_text(files_) : "";
    if (!endings.empty()) log_info("files by ending: {}; --include and --exclude choose among them", endings);
  }

  void join() {
    made_.model = read_text(options_.train ? parts_.folder() / "tokenizer" : std::filesystem::path(options_.tokenizer));
    made_.tokenizer = Tokenizer::from_bytes(made_.model, options_.tokenizer);
    made_.record = record_tokenizer(made_.model, made_.tokenizer->vocabulary());
    made_.document = document_tokens(options_, *made_.tokenizer);
    const Json& more = parts_.plan().more;
    if (more.at("tokenizer") != made_.record.checksum) {
      throw UserError::of("rank {} sees another {} than rank 0; all ranks must see the same files", ranks_.rank(),
                          options_.tokenizer);
    }
    const auto formats = more.at("formats").get<std::vector<int>>();
    for (size_t input = 0; input < formats.size(); ++input) {
      const PartInput& one = parts_.plan().inputs[input];
      files_.push_back({one.path, static_cast<TextFormat>(formats[input]), one.bytes});
    }
  }

  int threads() const { return static_cast<int>(run_.threads()); }

  void encode() {
    began_ = std::chrono::steady_clock::now();
    std::vector<InputFile> own;
    for (const size_t input : parts_.own()) own.push_back(files_[input]);
    BlockRules rules = options_.rules;
    rules.cut = [&](std::string_view text) { return made_.tokenizer->cut(text); };
    TextBlocks blocks(own, rules);
    Progress progress("tokenizing", parts_.bytes_kept() + parts_.bytes_left(), parts_.bytes_kept());
    TokenPartsWriter writer(parts_, own, token_type_for(made_.tokenizer->vocabulary()), options_.max_malformed);
    std::deque<uint64_t> read_by;  // bytes on disk up to the end of each block that is being encoded
    ordered_map<TextBlock, EncodedBlock>(
        threads(),
        [&]() -> std::optional<TextBlock> {
          run_.check_stop();
          if (parts_.is_stopped()) return std::nullopt;
          auto block = blocks.next();
          if (block) read_by.push_back(blocks.disk_bytes_read());
          return block;
        },
        [&]() -> std::function<EncodedBlock(TextBlock&)> {
          auto encoder = std::make_shared<BlockEncoder>(*made_.tokenizer, rules, made_.document);
          return [encoder](TextBlock& block) { return encoder->encode(block); };
        },
        [&](EncodedBlock& block) {
          run_.check_stop();
          writer.take(block);
          if (ranks_.is_first()) {
            // Blocks that are only read do not count: they would make the estimate of the first minute too short.
            progress.update(parts_.bytes_done(read_by.front()),
                            fmt::format("{} tokens", format_count(static_cast<int64_t>(writer.tokens()))));
          }
          read_by.pop_front();
        });
    if (!parts_.is_stopped()) writer.finish();
  }

  // Ranks copy the tokens of all parts to their places in the .bin; the first one writes lengths meanwhile.
  void make_corpus() {
    std::vector<FilePart> all;
    run_.on_first([&] {
      all = parts_.collect();
      sum_up(all);
      write_places(all);
    });
    const std::filesystem::path bin = ranks_.gather(writer_ ? writer_->unfinished_bin().string() : "").front();
    on_all_ranks(ranks_, [&] {
      copy_tokens(bin);
      for (const FilePart& part : all) {
        run_.check_stop();
        add_lengths(*writer_, parts_.folder(), part);
      }
    });
  }

  void sum_up(const std::vector<FilePart>& all) {
    for (const FilePart& part : all) report_.add(EncodedText::of_json(parse_json(part.facts)));
    if (report_.malformed_lines > options_.max_malformed) {
      throw_malformed(report_.malformed_lines, options_.max_malformed, report_.first_malformed);
    }
    if (report_.documents == 0) throw UserError("the input holds no text; nothing was written");
    report_.files = files_.size();
    report_.threads = threads() * static_cast<int>(ranks_.size());
    report_.vocabulary = made_.tokenizer->vocabulary();
    report_.type = writer_->type();
    report_.tokenizer_changes_text = made_.tokenizer->changes_text();
    report_.special_tokens = options_.special_tokens;
  }

  std::filesystem::path places_path() const { return parts_.folder() / "places.json"; }

  void write_places(const std::vector<FilePart>& all) const {
    Json places = Json::array();
    uint64_t at = 0;
    for (const FilePart& part : all) {
      const PartRange& range = part.ranges.at(tokens_channel);
      places.push_back({range.file, range.offset, range.bytes, at});
      at += range.bytes;
    }
    write_text_atomically(places_path(), places.dump() + "\n");
  }

  void copy_tokens(const std::filesystem::path& bin) const {
    const Json places = parse_json(read_text(places_path()));
    std::vector<uint64_t> sizes;
    for (const Json& place : places) sizes.push_back(place.at(2).get<uint64_t>());
    const std::vector<int64_t> rank_of = ranks_by_size(sizes, ranks_.size());
    RangeCopy copy(bin);
    Progress progress("joining the parts", sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (ranks_.is_first()) progress.update(i);
      if (rank_of[i] != ranks_.rank()) continue;
      run_.check_stop();
      const Json& place = places[i];
      copy.copy(parts_.folder() / place.at(0).get<std::string>(),
                {.offset = place.at(1).get<uint64_t>(), .bytes = sizes[i]}, place.at(3).get<uint64_t>());
    }
    copy.sync();
  }

  void finish() {
    make_corpus();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    run_.on_first([&] {
      run_.check_stop();
      end_start();  // what follows replaces the files of an earlier corpus, and is not to be cut off
      writer_->commit(made_.trained.get());
    });
  }

  const PrepareOptions& options_;
  PreparationRun run_;
  PrepareRanks& ranks_;
  RunTokenizer made_;
  std::optional<CorpusWriter> writer_;  // of the first rank
  FileParts parts_;
  std::vector<InputFile> files_;
  std::chrono::steady_clock::time_point began_ = {};  // to encode
  PrepareReport report_ = {};
};

}  // namespace

std::string output_prefix(const std::string& output) {
  const bool has_ending = output.ends_with(".bin") || output.ends_with(".idx");
  const std::string prefix = has_ending ? output.substr(0, output.size() - 4) : output;
  return prefix.empty() || prefix.ends_with('/') ? output : prefix;
}

PrepareReport prepare(const PrepareOptions& options) { return TextRun(options).run(); }

double PrepareReport::bytes_per_token() const { return static_cast<double>(text_bytes) / static_cast<double>(tokens); }

double PrepareReport::megabytes_per_second() const { return static_cast<double>(text_bytes) / 1e6 / seconds; }

Json PrepareReport::json() const {
  Json json = json_of_counts();
  json.update({{"files", files},
               {"vocabulary", vocabulary},
               {"token_type", token_type_name(type)},
               {"threads", threads},
               {"seconds", seconds}});
  return json;
}

}  // namespace terrace::data
