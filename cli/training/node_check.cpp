// Asks the run-time library for the GPUs, and brings the ranks together.
#include "cli/training/node_check.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <optional>
#include <string>
#include <vector>

#include "terrace/base/terminal/log.h"
#include "terrace/comm/nccl/nccl.h"
#include "terrace/doctor/gather.h"
#include "terrace/mesh/group.h"

namespace terrace::cli {
namespace {

std::optional<std::vector<std::string>> usable_gpus() {
  if (!comm::made_with_nccl()) return std::nullopt;
  const int count = at::globalContext().hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
  std::vector<std::string> addresses;
  for (int gpu = 0; gpu < count; ++gpu) addresses.push_back(comm::gpu_bus_address(gpu));
  return addresses;
}

}  // namespace

doctor::NodeView own_node(bool thorough) {
  doctor::NodeView view = doctor::this_node(thorough);
  view.gpus = usable_gpus();
  return view;
}

doctor::Diagnosis diagnose_node(const doctor::NodeView& view, const LaunchedRanks& ranks, doctor::ReadOptions options,
                                const MeasuredSpeed& speed) {
  if (ranks.world) options.rank = ranks.world->rank();
  doctor::Readings readings = doctor::read_node(view, options);
  readings.measured = speed.measured;
  readings.described = speed.described;
  if (!ranks.world) return doctor::diagnose({readings});
  const auto all = ranks.world->connect(mesh::all_ranks("doctor", ranks.world->size()));
  return doctor::diagnose_together(*all, readings);
}

void warn_of_gpu_support() {
  const doctor::NodeView view = doctor::this_node(false);
  const std::string name = "MPICH_GPU_SUPPORT_ENABLED";
  const auto value = view.variable(name);
  if (!value) return;
  doctor::Readings own;
  own.host = view.line("/proc/sys/kernel/hostname").value_or("this machine");
  own.environment = {{name, *value}};
  own.mpi = doctor::mpi_libraries(view);
  for (const doctor::Finding& finding : doctor::check_gpu_support({own}).findings) {
    log_warning("doctor: {}", doctor::line_of(finding));
  }
}

void warn_of_node(const LaunchedRanks& ranks) {
  const config::Config& config = ranks.config;
  const int64_t rank = ranks.world ? ranks.world->rank() : 0;
  // A folder of all ranks' files is read by one of them.
  const doctor::Readings readings =
      doctor::read_node(own_node(false), {.rank = rank,
                                          .run_folder = rank == 0 ? config.checkpoint.folder : "",
                                          .uses_gpus = config.train.device != "cpu",
                                          .whole_files = false});
  const doctor::Diagnosis diagnosis =
      ranks.world ? doctor::diagnose_by_node(*ranks.world, ranks.world->ranks_per_node(), readings)
                  : doctor::diagnose({readings});
  if (!ranks.is_reporting_rank()) return;
  for (const doctor::Finding& finding : diagnosis.findings) {
    const bool is_wanted = config.layout.share_gpus && finding.check == "one device";
    const bool is_said = ranks.world && finding.check == "GPU support of MPI";  // before MPI was started
    if (!is_wanted && !is_said) log_warning("doctor: {}", doctor::line_of(finding));
  }
}

}  // namespace terrace::cli
