// Reads each table of [[data.phases]] on top of the phase before it.
#include "terrace/config/read_phases.h"

#include <algorithm>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/text/spelling.h"
#include "terrace/config/family.h"
#include "terrace/config/section_keys.h"

namespace terrace::config {
namespace {

constexpr std::string_view step_key = "from_step";

class PhaseReader {
 public:
  PhaseReader(bool check_rules, Config& config)
      : phase_keys_(phase_keys_of(*config.family)), check_rules_(check_rules), config_(config) {
    names_.emplace_back(step_key);
    for (const Key& key : phase_keys_) names_.push_back(key.name);
  }

  void read(const toml::node& node) {
    const toml::array* array = node.as_array();
    if (array == nullptr || !std::ranges::all_of(*array, [](const toml::node& one) { return one.is_table(); })) {
      refuse(node, fmt::format("{0} must be a list of tables, each written [[{0}]]", phases_key));
      return;
    }
    for (const toml::node& table : *array) read_phase(*table.as_table());
  }

  std::vector<PhaseProblem> problems;

 private:
  void refuse(const toml::node& node, std::string text) { problems.push_back({node.source(), std::move(text)}); }
  std::string name_of_phase() const { return fmt::format("{}[{}]", phases_key, config_.phases.size() + 1); }

  void read_phase(const toml::table& table) {
    const size_t known_problems = problems.size();
    Config in = in_phase(config_, config_.phases.size());
    for (const auto& [key, node] : table) read_value(key, node, in);
    Phase phase{.from_step = read_step(table), .global_batch = in.train.global_batch, .data = in.data};
    if (table.size() <= 1 && problems.size() == known_problems) {
      refuse(table, fmt::format("{} changes nothing; give it {}", name_of_phase(),
                                listed(std::vector<std::string>(names_.begin() + 1, names_.end()))));
    }
    config_.phases.push_back(std::move(phase));
    if (check_rules_ && problems.size() == known_problems) check_rules(table);
  }

  void read_value(const toml::key& given, const toml::node& node, Config& in) {
    const std::string name{given.str()};
    if (name == step_key) return;
    const auto key = std::ranges::find(phase_keys_, name, &Key::name);
    if (key == phase_keys_.end()) {
      problems.push_back({given.source(), unknown_key(name)});
      return;
    }
    const std::string problem = key->read(node, in);
    if (!problem.empty()) refuse(node, fmt::format("{}.{} = {} {}", name_of_phase(), name, shown(node), problem));
  }

  std::string unknown_key(const std::string& name) const {
    const std::string text = fmt::format("unknown key {}.{}", name_of_phase(), name);
    const std::string nearest = nearest_word(name, names_);
    if (!nearest.empty()) return text + fmt::format("; did you mean {}?", nearest);
    return text + fmt::format("; a phase has {}", listed(names_, "and"));
  }

  // The first step of the phase; that of the phase before if it is not valid.
  int64_t read_step(const toml::table& table) {
    const int64_t before = config_.phases.empty() ? 0 : config_.phases.back().from_step;
    const toml::node* node = table.get(step_key);
    if (node == nullptr) {
      refuse(table, fmt::format("{}.from_step is missing; add a line such as from_step = {}", name_of_phase(),
                                std::max<int64_t>(before + 1, config_.train.steps / 2)));
      return before;
    }
    int64_t step = 0;
    std::string problem = Whole{1, most_steps}.read(*node, step);
    if (problem.empty() && step <= before) {
      problem = fmt::format("must be above {}, the step from which the phase before it begins; use at least {}", before,
                            before + 1);
    } else if (problem.empty() && config_.train.steps > 0 && step >= config_.train.steps) {
      problem = fmt::format("must be below train.steps = {}; use an earlier step, or train.steps of at least {}",
                            config_.train.steps, step + 1);
    }
    if (problem.empty()) return step;
    refuse(*node, fmt::format("{}.from_step = {} {}", name_of_phase(), shown(*node), problem));
    return before;
  }

  // The rules that involve keys of a phase. What is wrong in the phase before already is reported there.
  void check_rules(const toml::table& table) {
    const size_t number = config_.phases.size();
    const std::string name = phase_name(config_, number);
    const Config before = in_phase(config_, number - 1), in = in_phase(config_, number);
    const auto check = [&](const std::vector<Rule>& rules) {
      for (const Rule& rule : rules) {
        const bool of_phases = std::ranges::any_of(rule.keys, [&](const std::string& full_name) {
          return std::ranges::find(phase_keys_, full_name, &Key::full_name) != phase_keys_.end();
        });
        const std::string problem = of_phases ? rule.problem(in) : "";
        if (!problem.empty() && problem != rule.problem(before)) refuse(table, fmt::format("{}: {}", name, problem));
      }
    };
    check(core_rules());
    check(config_.family->settings.rules);
    const int64_t own = in.train.global_batch, first = config_.train.global_batch;
    if (config_.train.micro_batch != 0 || !config_.train.micro_batch_sizes.empty() || own == first) return;
    refuse(table, fmt::format("{}: global_batch = {} needs train.micro_batch, since without it a micro-batch is all "
                              "samples that a rank has of train.global_batch = {}; give train.micro_batch, such as {}",
                              name, own, first, std::gcd(own, first)));
  }

  std::vector<Key> phase_keys_;
  bool check_rules_;
  Config& config_;
  std::vector<std::string> names_;  // of the keys of a phase
};

}  // namespace

std::vector<PhaseProblem> read_phases(const toml::node& node, bool check_rules, Config& config) {
  PhaseReader reader(check_rules, config);
  reader.read(node);
  return std::move(reader.problems);
}

}  // namespace terrace::config
