// Reads what belongs to no other file: names, environment and limits; and turns readings into text.
#include "terrace/doctor/readings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>

namespace terrace::doctor {

// Names of fields are those of the struct, so that a copied text of readings explains itself.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gpu, address, vendor, model, numa, cores, target, memory_bytes, used_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Disk, path, file_system, bytes, free_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryErrors, place, corrected, uncorrected)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Speed, product_flops, product_spread, longest_product, copied_bytes, links)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OtherWork, seconds, cores, busiest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Readings, rank, host, environment, cores, node_cores, job_cores, quota,
                                   numa_of_cores, first_cores, other_work, gpus, knows_used_gpus, used_gpus, targets,
                                   loads_hip, cuda, driver, mpi, memory_errors, interfaces, infiniband, plug_in,
                                   plug_in_error, open_files, locked_bytes, files, node_disk, run_folder, home,
                                   shared_memory, caches, oldest_days, save_seconds, seconds_left, knows_network,
                                   network, nodes, measured, described)

namespace {

constexpr auto variables = std::to_array<std::string_view>({"NCCL_NET",
                                                            "NCCL_NET_PLUGIN",
                                                            "NCCL_SOCKET_IFNAME",
                                                            "NCCL_IB_DISABLE",
                                                            "NCCL_P2P_DISABLE",
                                                            "NCCL_SHM_DISABLE",
                                                            "FI_CXI_RDZV_PROTO",
                                                            "FI_MR_CACHE_MONITOR",
                                                            "HSA_XNACK",
                                                            "ROCR_VISIBLE_DEVICES",
                                                            "HIP_VISIBLE_DEVICES",
                                                            "CUDA_VISIBLE_DEVICES",
                                                            "SLURM_JOB_ID",
                                                            "SLURM_NETWORK",
                                                            "SLURM_CLUSTER_NAME",
                                                            "SLURM_JOB_NUM_NODES",
                                                            "SLURM_STEP_NUM_NODES",
                                                            "SLURM_JOB_END_TIME",
                                                            "MPICH_OFI_NIC_POLICY",
                                                            "MPICH_GPU_SUPPORT_ENABLED",
                                                            "USER",
                                                            "MIOPEN_USER_DB_PATH",
                                                            "MIOPEN_CUSTOM_CACHE_DIR"});

// The soft limit in lines such as "Max open files            1024                 4096                 files".
int64_t limit_of(const NodeView& view, std::string_view name) {
  for (const std::string& line : view.lines("/proc/self/limits")) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    std::string soft;
    words >> soft;
    if (soft == "unlimited") return unlimited;
    int64_t number = unknown;
    std::from_chars(soft.data(), soft.data() + soft.size(), number);
    return number;
  }
  return unknown;
}

}  // namespace

Readings read_node(const NodeView& view, const ReadOptions& options) {
  Readings readings{.rank = options.rank};
  readings.host = view.line("/proc/sys/kernel/hostname").value_or("this machine");
  for (const std::string_view name : variables) {
    if (const auto value = view.variable(std::string(name))) readings.environment[std::string(name)] = *value;
  }
  readings.open_files = limit_of(view, "Max open files");
  readings.locked_bytes = limit_of(view, "Max locked memory");
  read_cores(view, readings);
  read_other_work(view, readings);
  if (options.uses_gpus) read_gpus(view, readings);
  read_memory_errors(view, readings);
  read_program(view, options, readings);
  read_network(view, readings);
  read_disks(view, options, readings);
  read_slurm(view, options, readings);
  return readings;
}

std::string text_of(const Readings& readings) {
  return nlohmann::json(readings).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Readings readings_of(const std::string& text) { return nlohmann::json::parse(text).get<Readings>(); }

}  // namespace terrace::doctor
