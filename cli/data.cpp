// terrace data prepare and terrace data inspect: their flags and printed results.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/preparations.h"
#include "cli/preparing_ranks.h"
#include "cli/ranges.h"
#include "cli/reporting_process.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/printable.h"
#include "terrace/base/text/units.h"
#include "terrace/comm/launcher.h"
#include "terrace/data/preparation.h"
#include "terrace/data/text/corpus_record.h"
#include "terrace/data/text/inspect.h"
#include "terrace/data/text/prepare.h"

namespace terrace::cli {
namespace {

void print_prepared(const data::PrepareOptions& options, const data::PrepareReport& report) {
  for (const std::string& line : report.warnings()) log_warning("{}", line);
  fmt::print("{}, {} of text, {} ({:.2f} bytes a token) in {}: {:.1f} MB/s with {}\n",
             counted(report.documents, "document"), format_bytes(static_cast<double>(report.text_bytes)),
             counted(report.tokens, "token"), report.bytes_per_token(), format_seconds(report.seconds),
             report.megabytes_per_second(), counted(report.threads, "thread"));
  fmt::print("wrote {0}.bin, {0}.idx and {0}.corpus.json\n", printable(options.output));
}

constexpr std::array<std::pair<const char*, data::FormatChoice>, 4> format_choices = {
    {{"auto", data::FormatChoice::by_name},
     {"text", data::FormatChoice::plain},
     {"jsonl", data::FormatChoice::json_lines},
     {"parquet", data::FormatChoice::parquet}}};

data::FormatChoice format_named(const std::string& word) {
  return std::ranges::find(format_choices, word, [](const auto& choice) { return std::string_view(choice.first); })
      ->second;
}

constexpr const char* text_kind = "text";

std::vector<std::string> kinds_of(const Preparations& preparations) {
  std::vector<std::string> kinds = {text_kind};
  for (const data::Preparation* preparation : preparations) kinds.push_back(preparation->kind());
  return kinds;
}

// Adds the flags of other kinds than text. Kinds may share a flag, with each other and with text.
void add_flags_of_kinds(CLI::App& command, const Preparations& preparations) {
  for (const data::Preparation* preparation : preparations) {
    for (const data::PrepareFlag& flag : preparation->flags()) {
      const std::string name = "--" + flag.name;
      if (command.get_option_no_throw(name) != nullptr) continue;
      CLI::Option* option = flag.is_switch ? command.add_flag(name, flag.about) : command.add_option(name, flag.about);
      if (flag.is_list) option->expected(1, -1)->delimiter(',')->allow_extra_args(false);
      if (flag.is_range) option->expected(2);
      option->group(fmt::format("--kind {}", preparation->kind()));
    }
  }
}

// Throws UserError for a flag that the kind does not have. `own` are the names of its flags.
void check_flags_of_kind(const CLI::App& command, const std::string& kind, const std::set<std::string>& own) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_single_name();
    if (option->count() == 0 || own.contains(name)) continue;
    throw UserError::of("--{} does not belong to --kind {}, whose flags are --{}", name, kind, fmt::join(own, ", --"));
  }
}

// Processes that each wrote the same files would damage them.
void check_one_process(const std::string& kind) {
  if (!comm::started_by_mpi()) return;
  throw UserError(
      is_reporting_process()
          ? fmt::format("--kind {} is prepared by one process, and a launcher has started {}; start it without "
                        "the launcher, with --threads",
                        kind, comm::launched_processes())
          : "");
}

// Calls `prepare` on this process, or on all of a launch together. Returns whether this process is the one that prints.
bool prepare_on_ranks(const std::function<void(data::PrepareRanks*)>& prepare) {
  std::unique_ptr<data::PrepareRanks> ranks = connect_preparing_ranks();
  const bool is_first = ranks == nullptr || ranks->is_first();
  std::optional<UserError> refusal;
  try {
    prepare(ranks.get());
  } catch (const UserError& all_know) {
    refusal = all_know;
  }
  ranks.reset();  // while an exception is thrown, its end would report a failure to the other ranks
  if (refusal) throw UserError(*refusal);
  return is_first;
}

// Flags that every kind takes.
const std::set<std::string> common_flags = {"inputs", "kind", "output", "threads", "overwrite", "json"};

void prepare_kind(const CLI::App& command, const data::Preparation& preparation, data::PrepareRequest request,
                  bool as_json) {
  std::set<std::string> own = common_flags;
  for (const data::PrepareFlag& flag : preparation.flags()) {
    own.insert(flag.name);
    const CLI::Option* option = command.get_option("--" + flag.name);
    if (option->count() == 0) continue;
    request.flags[flag.name] = flag.is_switch ? std::vector<std::string>{} : option->results();
  }
  check_flags_of_kind(command, preparation.kind(), own);
  data::PrepareResult result;
  const auto prepare = [&](data::PrepareRanks* ranks) {
    request.ranks = ranks;
    result = preparation.prepare(request);
  };
  bool is_first = true;
  if (preparation.divides_work()) {
    is_first = prepare_on_ranks(prepare);
  } else {
    check_one_process(preparation.kind());
    prepare(nullptr);
  }
  if (is_first) fmt::print("{}\n", as_json ? result.json.dump(2) : result.text);
}

// Values that the command line gives; the options live as long as the command.
struct PrepareFlags {
  data::PrepareOptions options = {};
  std::string kind = text_kind, trained = {}, separator = {}, format = "auto", special_tokens = "split";
  bool as_json = false;
  const CLI::Option* separated = nullptr;
  CLI::Option* train = nullptr;
};

void add_flags_of_text(CLI::App& command, PrepareFlags& flags) {
  command
      .add_option("inputs", flags.options.inputs,
                  "Text, JSON lines or arrays, plain, gzip or zstd, or Parquet; folders are searched")
      ->required();
  command.add_option("--output", flags.options.output, "Prefix of the .bin and .idx to write")->required();
  CLI::Option* given = command.add_option("--tokenizer", flags.options.tokenizer,
                                          "SentencePiece model or tokenizer.json to encode with");
  command.add_option("--begin-token", flags.options.begin_token,
                     "A token to put before each document (BOS), a number or a text such as '<s>' (default: none)");
  command.add_option("--end-token", flags.options.end_token,
                     "The token that closes each document, a number or a text, where it is not the tokenizer's own");
  command
      .add_option("--special-tokens", flags.special_tokens,
                  "Texts of control tokens inside documents, such as <|endoftext|>: split into plain text, or keep as "
                  "these tokens")
      ->check(CLI::IsMember({"split", "keep"}))
      ->capture_default_str();
  flags.train = command.add_option("--train-tokenizer", flags.trained, "Train a SentencePiece model and write it here");
  flags.train->excludes(given);
  command.add_option("--vocabulary", flags.options.vocabulary, "Size of a trained vocabulary")
      ->check(positive())
      ->capture_default_str()
      ->needs(flags.train);
  command.add_option("--tokenizer-sample-bytes", flags.options.sample_bytes, "Text to train a tokenizer on")
      ->capture_default_str()
      ->needs(flags.train)
      ->transform(CLI::AsSizeValue(false))
      ->check(positive());
  command
      .add_option("--include", flags.options.patterns.include, "Take only files of folders that match, such as '*.txt'")
      ->allow_extra_args(false);
  command
      .add_option("--exclude", flags.options.patterns.exclude,
                  "Leave out files of folders that match; may be given again")
      ->allow_extra_args(false);
  std::vector<std::string> format_words;
  for (const auto& [word, choice] : format_choices) format_words.emplace_back(word);
  command.add_option("--format", flags.format, "auto: by name and first bytes")
      ->check(CLI::IsMember(format_words))
      ->capture_default_str();
  command
      .add_option("--field", flags.options.rules.field,
                  "Field of a JSON object or column of Parquet that holds the text; meta.text: text in meta")
      ->capture_default_str();
  flags.separated = command.add_option(
      "--separator", flags.separator,
      "A line of plain text that ends a document; \"\": blank lines (default: a file is a document)");
  command
      .add_option("--max-malformed", flags.options.max_malformed,
                  "Malformed JSON lines and rows of Parquet to leave out before giving up")
      ->check(not_negative())
      ->capture_default_str();
  command
      .add_option("--max-line-bytes", flags.options.rules.max_line_bytes,
                  "A longer JSON line, or text of a row, counts as malformed")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false))
      ->check(positive());
  command.add_option("--threads", flags.options.threads, "0: one per core")
      ->check(thread_count())
      ->capture_default_str();
  command.add_flag("--overwrite", flags.options.overwrite, "Replace an existing corpus or tokenizer");
  command.add_flag("--resume", flags.options.resume, "Continue a preparation that was killed, where there is one");
  command.add_flag("--json", flags.as_json, "Print the result as JSON");
}

void prepare_text(PrepareFlags& flags) {
  data::PrepareOptions& options = flags.options;
  options.train = flags.train->count() > 0;
  options.output = data::output_prefix(options.output);
  if (options.train) options.tokenizer = flags.trained;
  options.format = format_named(flags.format);
  if (flags.special_tokens == "keep") options.special_tokens = data::SpecialTokens::keep;
  if (flags.separated->count() > 0) options.rules.separator = flags.separator;
  options.stop = &interrupted();
  data::PrepareReport report;
  const bool is_first = prepare_on_ranks([&](data::PrepareRanks* ranks) {
    options.ranks = ranks;
    report = data::prepare(options);
  });
  if (!is_first) return;
  if (flags.as_json) {
    fmt::print("{}\n", report.json().dump(2));
  } else {
    print_prepared(options, report);
  }
}

void add_prepare(CLI::App& data, const Preparations& preparations) {
  CLI::App* command = data.add_subcommand("prepare", "Make a dataset to train on: a corpus of tokens from text");
  const auto flags = std::make_shared<PrepareFlags>();
  add_flags_of_text(*command, *flags);
  std::set<std::string> flags_of_text = {"kind"};
  for (const CLI::Option* option : command->get_options()) flags_of_text.insert(option->get_single_name());
  if (!preparations.empty()) {
    command->add_option("--kind", flags->kind, "What to make")
        ->check(CLI::IsMember(kinds_of(preparations)))
        ->capture_default_str();
    add_flags_of_kinds(*command, preparations);
  }
  command->callback([=] {
    // After the first signal the program removes its temporary files; the work on one large piece may take longer.
    stop_on_signals(std::chrono::seconds(10));
    const auto of_family = std::ranges::find(preparations, flags->kind, &data::Preparation::kind);
    if (of_family == preparations.end()) {
      check_flags_of_kind(*command, flags->kind, flags_of_text);
      return prepare_text(*flags);
    }
    prepare_kind(*command, **of_family,
                 {.inputs = flags->options.inputs,
                  .output = flags->options.output,
                  .overwrite = flags->options.overwrite,
                  .threads = flags->options.threads,
                  .stop = &interrupted()},
                 flags->as_json);
  });
}

constexpr const char* checksums_are_right = "all checksums are right";

void add_checksums(data::PrepareResult& result) {
  if (!result.text.ends_with(checksums_are_right)) result.text += fmt::format("\n{}", checksums_are_right);
  result.json["checksums"] = "right";
}

void inspect_text(const std::string& prefix, const std::string& tokenizer, int64_t sample_tokens, bool verify,
                  bool as_json) {
  const data::CorpusSummary summary = data::inspect(prefix, tokenizer, sample_tokens);
  if (verify && !data::verify_corpus(prefix)) {
    throw UserError::of(
        "{0} has no checksums: {0}.corpus.json is missing, or of a version before they were kept; make the corpus "
        "again, or leave --verify out",
        prefix);
  }
  if (as_json) {
    Json json = summary.json();
    if (verify) json["checksums"] = "right";
    // A sample may end within a character.
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}{}", summary.table(), verify ? fmt::format("{}\n", checksums_are_right) : "");
  }
}

void add_inspect(CLI::App& data, const Preparations& preparations) {
  CLI::App* command =
      data.add_subcommand("inspect", "Check a corpus or a dataset of fields or graphs and show what is in it");
  auto prefix = std::make_shared<std::string>();
  auto tokenizer = std::make_shared<std::string>();
  auto sample_tokens = std::make_shared<int64_t>(100);
  auto json = std::make_shared<bool>(false), verify = std::make_shared<bool>(false);
  command->add_option("prefix", *prefix, "Prefix of the files that data prepare wrote")->required();
  command->add_option("--tokenizer", *tokenizer, "SentencePiece model or tokenizer.json, for a decoded sample");
  command->add_option("--sample", *sample_tokens, "Tokens of the sample")->check(not_negative())->capture_default_str();
  command->add_flag("--verify", *verify, "Read everything and compare it with the checksums that data prepare wrote");
  command->add_flag("--json", *json, "Print the result as JSON");
  command->callback([=] {
    for (const data::Preparation* kind : preparations) {
      if (!kind->has_made(*prefix)) continue;
      check_flags_of_kind(*command, kind->kind(), {"prefix", "json", "verify"});
      if (*verify) kind->verify(*prefix);
      data::PrepareResult result = kind->inspect(*prefix);
      if (*verify) add_checksums(result);
      fmt::print("{}\n", *json ? result.json.dump(2) : result.text);
      return;
    }
    inspect_text(*prefix, *tokenizer, *sample_tokens, *verify, *json);
  });
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Prepare and inspect training data");
  data->require_subcommand(1);
  const Preparations all = preparations();
  add_prepare(*data, all);
  add_inspect(*data, all);
}

}  // namespace terrace::cli
