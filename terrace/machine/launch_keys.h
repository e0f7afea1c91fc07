// The keys of a machine's [launch], and what their values may be.
#pragma once

#include <string>

#include "terrace/config/domain.h"
#include "terrace/config/quantity.h"
#include "terrace/config/section_keys.h"
#include "terrace/machine/machine.h"

namespace terrace::machine {

// Each returns what is wrong as the end of a sentence that begins with the key, or "".
std::string environment_problem(const std::vector<std::string>& values);
// `sbatch` options must not be those that terrace launch writes itself.
std::string options_problem(const std::vector<std::string>& options, bool sbatch);
std::string modules_problem(const std::vector<std::string>& modules);
std::string word_of_slurm_problem(const std::string& word);
std::string node_disk_problem(const Launch& launch);
std::string longest_times_problem(const std::vector<TimeLimit>& limits);

template <typename Table>
void time_limit_keys(Table& table) {
  table.optional("partition", &TimeLimit::partition, config::Text{.may_be_empty = true});
  table.required("nodes", &TimeLimit::nodes, config::Whole{1, config::most_ranks}, "91");
  table.required("time", &TimeLimit::seconds, config::Duration{}, "\"2h\"");
  table.rule({"partition"}, [](const TimeLimit& limit) { return word_of_slurm_problem(limit.partition); });
}

template <typename Table>
void launch_keys(Table& table) {
  const config::Text text{.may_be_empty = true};
  const config::Texts texts{.may_be_empty = true};
  table.optional("partition", &Launch::partition, text);
  table.optional("account", &Launch::account, text);
  table.optional("needs_account", &Launch::needs_account, config::Flag{});
  table.optional("longest_time", &Launch::longest_seconds, config::Duration{});
  table.list(
      "longest_times", &Launch::longest_times, [](auto& limit) { time_limit_keys(limit); }, [](auto&) {});
  table.optional("cores_per_rank", &Launch::cores_per_rank, config::Whole{0, 1024});
  table.optional("mpi", &Launch::mpi, text);
  table.optional("sbatch_options", &Launch::sbatch_options, texts);
  table.optional("srun_options", &Launch::srun_options, texts);
  table.optional("modules", &Launch::modules, texts);
  table.optional("environment", &Launch::environment, texts);
  table.optional("one_node_environment", &Launch::one_node_environment, texts);
  table.optional("rank_environment", &Launch::rank_environment, texts);
  table.optional("node_disk", &Launch::node_disk, text);
  table.optional("node_disk_size", &Launch::node_disk_bytes, config::Quantity{config::Measure::bytes, 1e6, 1e16});
  table.rule({"partition"}, [](const Launch& launch) { return word_of_slurm_problem(launch.partition); });
  table.rule({"account"}, [](const Launch& launch) { return word_of_slurm_problem(launch.account); });
  table.rule({"longest_times"}, [](const Launch& launch) { return longest_times_problem(launch.longest_times); });
  table.rule({"mpi"}, [](const Launch& launch) { return word_of_slurm_problem(launch.mpi); });
  table.rule({"sbatch_options"}, [](const Launch& launch) { return options_problem(launch.sbatch_options, true); });
  table.rule({"srun_options"}, [](const Launch& launch) { return options_problem(launch.srun_options, false); });
  table.rule({"modules"}, [](const Launch& launch) { return modules_problem(launch.modules); });
  table.rule({"environment"}, [](const Launch& launch) { return environment_problem(launch.environment); });
  table.rule({"one_node_environment"},
             [](const Launch& launch) { return environment_problem(launch.one_node_environment); });
  table.rule({"rank_environment"}, [](const Launch& launch) { return environment_problem(launch.rank_environment); });
  table.rule({"node_disk", "node_disk_size"}, node_disk_problem);
}

}  // namespace terrace::machine
