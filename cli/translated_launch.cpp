// Adds the options, and passes the user's words and files to the translations.
#include "cli/translated_launch.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/models/planned_families.h"
#include "terrace/translate/deepspeed.h"
#include "terrace/translate/megatron.h"
#include "terrace/translate/torchtitan.h"

namespace terrace::cli {
namespace {

std::optional<translate::DeepSpeedFile> deepspeed_file(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return translate::DeepSpeedFile{.name = name, .json = read_text(name)};
}

// Ranks with the same samples in the configuration over which DeepSpeed's settings are put.
int64_t model_ranks_of(const PlannedTarget& target) {
  const config::Config config =
      config::load_for_plan(target.config, models::planned_families(), target.overrides, config::IdleKeys::accept);
  return config.layout.ranks_of_samples();
}

// A name without hyphens before it and with hyphens inside, and of an argument the name alone.
std::string bare_name(std::string text) {
  text.erase(0, std::min(text.find_first_not_of('-'), text.size()));
  text.erase(std::min(text.find(' '), text.size()));
  std::ranges::replace(text, '_', '-');
  return text;
}

// Throws UserError for names that no argument has, since a misspelt one would change nothing.
void check_left_out(const std::vector<std::string>& names, const translate::Translation& translation) {
  for (const std::string& name : names) {
    const auto is_meant = [&](const std::string& argument) { return bare_name(argument) == bare_name(name); };
    if (std::ranges::none_of(translation.left_out, is_meant)) {
      throw UserError::of("--leave-out {}: the launch has no such argument; name one that it has, or leave this out",
                          name);
    }
  }
}

translate::Translation translation_of(const TranslationArguments& launch, const translate::Wishes& wishes,
                                      PlannedTarget& target) {
  if (!launch.megatron.empty()) {
    return translate::translate_megatron(launch.megatron, deepspeed_file(launch.deepspeed), wishes);
  }
  if (!launch.torchtitan.empty()) {
    return translate::translate_torchtitan(read_text(launch.torchtitan), launch.torchtitan, wishes);
  }
  if (target.config.empty()) {
    throw UserError::of(
        "--from-deepspeed {} says nothing of the model; give a configuration that has one, or the launch's "
        "arguments with --from-megatron",
        launch.deepspeed);
  }
  return translate::translate_deepspeed(*deepspeed_file(launch.deepspeed), model_ranks_of(target), wishes);
}

}  // namespace

void add_launch_options(CLI::App& command, TranslationArguments& launch) {
  launch.config = command.get_option("config")->required(false);
  launch.software = command.get_option("--software");
  CLI::Option* megatron = command.add_option("--from-megatron", launch.megatron,
                                             "In place of the configuration: the arguments of a launch of Megatron-LM "
                                             "or Megatron-DeepSpeed, as one text, also "
                                             "with the launcher and the script before them (docs/translating.md)");
  CLI::Option* deepspeed = command.add_option("--from-deepspeed", launch.deepspeed,
                                              "DeepSpeed's configuration in JSON: beside --from-megatron, or over a "
                                              "configuration for its batch, precision, sharding and optimizer");
  CLI::Option* torchtitan =
      command.add_option("--from-torchtitan", launch.torchtitan, "In place of the configuration: torchtitan's in TOML");
  command
      .add_option("--leave-out", launch.left_out,
                  "An argument of the launch that counts as not given, such as embed-layernorm; may be given again")
      ->allow_extra_args(false);
  megatron->excludes(launch.config)->excludes(torchtitan);
  torchtitan->excludes(launch.config)->excludes(deepspeed);
}

void translate_launch(const TranslationArguments& launch, int64_t devices, PlannedTarget& target) {
  const bool is_given = !launch.megatron.empty() || !launch.deepspeed.empty() || !launch.torchtitan.empty();
  if (!is_given) {
    if (target.config.empty()) {
      throw UserError(
          "config is required: give a configuration, such as configs/tiny.toml, or the launch of another trainer by "
          "--from-megatron or --from-torchtitan, or measured runs by --score or --fit");
    }
    if (!launch.left_out.empty()) {
      throw UserError(
          "--leave-out needs a launch to translate, by --from-megatron, --from-deepspeed or --from-torchtitan");
    }
    return;
  }
  const translate::Wishes wishes{.overrides = target.overrides, .left_out = launch.left_out, .devices = devices};
  translate::Translation translation = translation_of(launch, wishes, target);
  check_left_out(launch.left_out, translation);
  if (!translation.unknown.empty()) {
    log_warning("arguments that are not known, and not in the plan:\n  {}", fmt::join(translation.unknown, "\n  "));
  }
  const auto repeat = [&](const char* option, const std::string& value) {
    if (!value.empty()) target.launch.insert(target.launch.end(), {option, value});
  };
  repeat("--from-megatron", launch.megatron);
  repeat("--from-torchtitan", launch.torchtitan);
  repeat("--from-deepspeed", launch.deepspeed);
  for (const std::string& name : launch.left_out) repeat("--leave-out", name);
  if (target.config.empty()) {
    target.config = launch.torchtitan.empty() ? "--from-megatron" : launch.torchtitan;
    target.text = translate::toml_of(translation);
  } else {
    target.translated = translate::overrides_of(translation);
  }
  if (target.devices == 0) target.devices = translation.devices;
  if (launch.software->count() == 0) {
    target.software = translation.software;
  } else {
    translation.software.clear();
  }
  target.translation = translation;
}

void write_translation(const PlannedTarget& target, const config::Config& config, const std::string& file) {
  std::error_code ignored;  // one of them does not exist
  if (std::filesystem::equivalent(file, target.config, ignored)) {
    throw UserError::of("--write {} would replace the configuration itself; name another file", file);
  }
  write_text_atomically(
      file, fmt::format("# Translated from a launch of {}.\n{}", target.translation->program, config::dump(config)));
  const std::string missing = target.missing_for_training();
  if (!missing.empty()) {
    log_warning("{} is for planning only, and has examples where the launch lacks keys that training needs: {}", file,
                missing);
  }
}

}  // namespace terrace::cli
