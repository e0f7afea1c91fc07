// Reads the words of a launch and applies the table and the rules.
#include "terrace/translate/megatron.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/base/problem_list.h"
#include "terrace/base/text/plural.h"
#include "terrace/translate/megatron_rules.h"
#include "terrace/translate/megatron_table.h"
#include "terrace/translate/shell_words.h"

namespace terrace::translate {
namespace {

constexpr std::string_view source = "--from-megatron";

// The names that torchrun, deepspeed, srun and mpirun give to the numbers of nodes, of ranks on a node and of all
// ranks.
constexpr std::array launcher_rows = {
    Row{"nnodes", Meaning::part},
    Row{"num-nodes", Meaning::part},
    Row{"nodes", Meaning::part},
    Row{"N", Meaning::part},
    Row{"nproc-per-node", Meaning::part},
    Row{"num-gpus", Meaning::part},
    Row{"ntasks-per-node", Meaning::part},
    Row{"ntasks", Meaning::part},
    Row{"n", Meaning::part},
    Row{"np", Meaning::part},
    Row{"*", Meaning::no_effect},
};

// The first of these arguments that is a whole number. A launcher's words such as "gpu" are no problem.
std::optional<int64_t> number_of(const ArgumentReader& reader, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const std::vector<std::string> words = reader.words(name);
    if (words.empty() || words.front().empty() || words.front().size() > 8) continue;
    if (std::ranges::all_of(words.front(), [](char c) { return c >= '0' && c <= '9'; }))
      return std::stoll(words.front());
  }
  return std::nullopt;
}

// The ranks that the words of a launcher start; 0 if they do not say.
int64_t launched_ranks(std::vector<std::string> words) {
  words.erase(words.begin(),
              std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); }));
  if (words.empty()) return 0;
  Translation ignored;
  std::vector<std::string> problems;
  const Wishes none;
  const ArgumentReader reader(arguments_of(words, source), launcher_rows, Spelling::option, none, ignored, problems);
  const auto nodes = number_of(reader, {"nnodes", "num-nodes", "nodes", "N"});
  if (const auto of_node = number_of(reader, {"nproc-per-node", "num-gpus"})) return *of_node * nodes.value_or(1);
  if (const auto of_node = number_of(reader, {"ntasks-per-node"}); of_node && nodes) return *of_node * *nodes;
  return number_of(reader, {"ntasks", "np", "n"}).value_or(0);
}

// Takes the words of the launcher and the script off.
std::vector<std::string> launcher_of(std::vector<std::string>& words) {
  if (words.empty() || words.front().starts_with('-')) return {};
  const auto script = std::ranges::find_if(words, [](const std::string& word) { return word.ends_with(".py"); });
  if (script == words.end()) return {};
  std::vector<std::string> launcher(words.begin(), script);
  words.erase(words.begin(), script + 1);
  return launcher;
}

std::string counted_of(int64_t number, const char* what) { return counted(static_cast<uint64_t>(number), what); }

void add_devices(ArgumentReader& reader, int64_t launched, Translation& translation) {
  const int64_t tensor = translation.whole_value("layout.tensor", 1),
                stages = translation.whole_value("layout.pipeline", 1);
  const int64_t context = translation.whole_value("layout.context", 1);
  const int64_t model_ranks = product(product(tensor, context), stages);
  const std::string of_context = context > 1 ? counted_of(context, "context rank") + " * " : "";
  if (reader.wishes().devices > 0) {
    translation.devices = reader.wishes().devices;
  } else if (launched > 0) {
    translation.devices = launched;
    reader.assume(fmt::format("{}, as the launcher starts", counted_of(launched, "device")));
  } else if (translation.devices == 0) {
    translation.devices = model_ranks;
    reader.assume(fmt::format("one data-parallel rank, so {}: {} * {}{}; --devices gives more",
                              counted_of(model_ranks, "device"), counted_of(tensor, "tensor rank"), of_context,
                              counted_of(stages, "stage")));
  }
  if (translation.devices % model_ranks != 0) {
    reader.problem(fmt::format("{} devices are not a multiple of {} * {}{} = {}; use --devices {}", translation.devices,
                               counted_of(tensor, "tensor rank"), of_context, counted_of(stages, "stage"), model_ranks,
                               product(std::max<int64_t>(translation.devices / model_ranks, 1), model_ranks)));
  }
}

}  // namespace

Translation translate_megatron(const std::string& text, const std::optional<DeepSpeedFile>& deepspeed,
                               const Wishes& wishes) {
  std::vector<std::string> words = shell_words(text, source);
  const int64_t launched = launched_ranks(launcher_of(words));
  Translation translation;
  std::vector<std::string> problems;
  ArgumentReader reader(arguments_of(words, source), megatron_table(), Spelling::option, wishes, translation, problems);
  translation.program = reader.has("deepspeed") || deepspeed ? megatron_deepspeed : "Megatron-LM";
  add_megatron_layout(reader, translation);
  if (deepspeed) {
    Wishes launch = wishes;
    if (launch.devices == 0) launch.devices = launched;
    add_deepspeed(*deepspeed,
                  product(translation.whole_value("layout.tensor", 1), translation.whole_value("layout.pipeline", 1)),
                  launch, translation, problems);
  } else if (reader.has("deepspeed-config")) {
    reader.assume(fmt::format("{} is not read; --from-deepspeed FILE adds it", reader.text("deepspeed-config")));
  }
  add_devices(reader, launched, translation);
  add_megatron_training(reader, translation);
  add_megatron_model(reader, translation);
  add_megatron_data(reader);
  add_megatron_program(reader, translation);
  reader.finish();
  throw_problems(problems, "problems with the arguments of " + std::string(source));
  return translation;
}

}  // namespace terrace::translate
