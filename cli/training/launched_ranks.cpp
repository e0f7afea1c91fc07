// Reads the configuration on every process of a launch, and reports a mistake in it once.
#include "cli/training/launched_ranks.h"

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "cli/reporting_process.h"
#include "cli/training/node_check.h"
#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/config/load_for_check.h"
#include "terrace/models/families.h"
#include "terrace/run/resumed_checkpoint.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "terrace/run/start_facts.h"
#include "terrace/train/agreement.h"
#include "terrace/train/world_options.h"

namespace terrace::cli {
namespace {

void check_threads(int64_t threads) {
  if (threads <= 1) return;
  throw UserError::of(
      "--ranks {} are threads of one process, and a launcher has started {} processes; leave --ranks out, or start "
      "terrace without the launcher",
      threads, comm::launched_processes());
}

// All processes find the same mistake in how MPI was started, so only one reports it.
std::shared_ptr<comm::MpiLibrary> start_mpi() {
  if (is_reporting_process()) warn_of_gpu_support();
  try {
    return comm::start_mpi();
  } catch (const UserError& error) {
    throw UserError(is_reporting_process() ? error.what() : "", error.code);
  }
}

// Reads the configuration, and throws what it has wrong.
using Load = std::function<config::Config()>;

LaunchedRanks connect_with(const Load& load, int64_t threads) {
  if (!comm::started_by_mpi()) return {.config = load()};
  LaunchedRanks ranks;
  ranks.library = start_mpi();
  std::optional<UserError> problem;
  const auto load_here = [&] {
    try {
      check_threads(threads);
      ranks.config = load();
    } catch (const UserError& error) {
      problem = error;
    } catch (const std::exception& error) {
      problem.emplace(error.what(), ExitCode::failure);  // must reach agree(), where the other ranks wait for this one
    }
  };
  // The first process reads the small files for all.
  if (is_reporting_process()) {
    const NotedTexts noted;
    load_here();
    comm::broadcast_bytes(ranks.library, noted.bytes());
  } else {
    take_texts(comm::broadcast_bytes(ranks.library, ""));
    load_here();
  }
  std::optional<UserError> refusal;
  try {
    const Activity activity("connecting the processes of the launch");
    ranks.world = comm::make_mpi_world(ranks.library, train::world_options(ranks.config));
    if (!ranks.is_reporting_rank()) log_only_warnings();
    train::agree(*ranks.world, problem);
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  } catch (const UserError& error) {
    // Without a world, the error is about how the processes are spread over machines, which all of them see.
    if (ranks.world) throw;
    throw UserError(is_reporting_process() ? error.what() : "", error.code);
  }
  if (!refusal) return ranks;
  // The world must be gone before the exception is thrown: its destructor would report a failure to the other ranks.
  ranks.world.reset();
  throw UserError(*refusal);
}

}  // namespace

LaunchedRanks load_and_connect(const std::string& config, const std::vector<std::string>& overrides, int64_t threads) {
  return connect_with([&] { return config::load(config, models::families(), overrides); }, threads);
}

LaunchedRanks load_for_check_and_connect(const std::string& config, const std::vector<std::string>& overrides,
                                         int64_t threads, const std::string& resume) {
  const auto file_problems = [&](const config::Config& read) {
    return run::file_problems(read, run::is_new_run(resume, read.checkpoint.folder));
  };
  return connect_with([&] { return config::load_for_check(config, models::families(), overrides, file_problems); },
                      threads);
}

LaunchedRanks connect(int64_t threads) {
  return connect_with([] { return config::Config(); }, threads);
}

void check_same_configuration(LaunchedRanks& ranks) {
  std::optional<UserError> refusal;
  try {
    const auto all = ranks.world->connect(mesh::all_ranks("start", ranks.world->size()));
    train::check_same(*all, run::program_facts(ranks.config));
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  if (!refusal) return;
  ranks.world.reset();
  throw UserError(*refusal);
}

}  // namespace terrace::cli
