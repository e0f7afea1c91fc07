// Checks how ranks reach each other: the plug-in of RCCL and NCCL, settings of Slingshot's library, interfaces and
// limits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/base/text/units.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {
namespace {

constexpr const char* no_slingshot = "no interface hsn0, so no Slingshot";

std::string problem_of_plug_in(const Readings& rank, bool several_nodes, bool slingshot) {
  const std::string plug_in = variable_of(rank, "NCCL_NET_PLUGIN"), net = variable_of(rank, "NCCL_NET");
  if (!rank.plug_in_error.empty()) return fmt::format("{} cannot be loaded: {}", rank.plug_in, rank.plug_in_error);
  const bool has_network = slingshot || !rank.infiniband.empty();
  if (several_nodes && has_network && net == "Socket") return "NCCL_NET=Socket on several nodes";
  if (!rank.plug_in.empty()) return "";
  if (!plug_in.empty() && plug_in != "none") {
    return plug_in.find('/') != plug_in.npos
               ? fmt::format("NCCL_NET_PLUGIN={} is in no folder", plug_in)
               : fmt::format("NCCL_NET_PLUGIN={} is in no folder of LD_LIBRARY_PATH or of ld.so", plug_in);
  }
  if (net == "OFI") return "NCCL_NET=OFI, and no plug-in is in a folder of LD_LIBRARY_PATH or of ld.so";
  if (several_nodes && slingshot) return "no plug-in is in a folder of LD_LIBRARY_PATH or of ld.so";
  return "";
}

// Whether a variable that is a number is set and not 0, which leaves things as they are.
bool is_on(const Readings& rank, const std::string& name) {
  const std::string value = variable_of(rank, name);
  return !value.empty() && value != "0";
}

// The library by which Cray's MPI reads memory of GPUs.
bool has_gpu_support(const Readings& rank) {
  return std::ranges::any_of(rank.mpi, [](const std::string& name) { return name.starts_with("libmpi_gtl_"); });
}

// The names in NCCL_SOCKET_IFNAME that no interface has. Names are beginnings of names, or whole ones behind "="; names
// behind "^" are left out, which needs no interface.
std::vector<std::string> missing_interfaces(const Readings& rank) {
  std::string list = variable_of(rank, "NCCL_SOCKET_IFNAME");
  if (list.empty() || list.starts_with('^')) return {};
  const bool whole = list.starts_with('=');
  if (whole) list.erase(0, 1);
  std::vector<std::string> missing;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const bool found = std::ranges::any_of(rank.interfaces, [&](const std::string& interface) {
      return whole ? interface == name : interface.starts_with(name);
    });
    if (!found) missing.push_back(name);
  }
  return missing;
}

// Two dies of MI250X share an adapter of the network.
int64_t expected_interfaces(const Readings& rank) { return std::ranges::count(rank.gpus, "0x7408", &Gpu::model) / 2; }

}  // namespace

CheckOutcome check_plug_in(const JobReadings& job) {
  if (!has_gpus(job)) return does_not_apply("no GPU that computes is on the bus");
  const bool slingshot = has_slingshot(job), several_nodes = nodes_of(job) > 1;
  const bool is_named = std::ranges::any_of(job, [](const Readings& rank) {
    return !variable_of(rank, "NCCL_NET_PLUGIN").empty() || !variable_of(rank, "NCCL_NET").empty();
  });
  if (!is_named && !(several_nodes && (slingshot || has_infiniband(job)))) {
    return does_not_apply(several_nodes ? "no network that needs a plug-in" : "the GPUs of one node need no network");
  }
  const std::vector<std::string> found =
      found_on(job, [&](const Readings& rank) { return problem_of_plug_in(rank, several_nodes, slingshot); });
  std::string fix = "export NCCL_NET=IB, or unset NCCL_NET and NCCL_NET_PLUGIN";
  if (slingshot) {
    fix = has_amd_gpus(job) ? "module load rccl-net-plugin, after rocm; then export NCCL_NET=OFI"
                            : "load the module of the plug-in aws-ofi-nccl; then export NCCL_NET=\"AWS Libfabric\"";
  }
  if (!several_nodes) fix += "; on one node export NCCL_NET=Socket does too";
  return outcome_of(
      job, found,
      {.severity = Severity::error,
       .why = "without the plug-in GPUs of several nodes exchange over TCP, which is many times slower, or "
              "the run stops at its start",
       .fix = fix});
}

CheckOutcome check_rendezvous(const JobReadings& job) {
  if (!has_slingshot(job)) return does_not_apply(no_slingshot);
  if (std::ranges::none_of(job, &Readings::knows_network)) {
    return does_not_apply("Slurm's options for the network are not known");
  }
  std::vector<std::string> found;
  for (const Readings& rank : job) {
    const bool reads = variable_of(rank, "FI_CXI_RDZV_PROTO") == "alt_read";
    // The first rank has asked Slurm for all.
    const Readings& knowing = rank.knows_network ? rank : job.front();
    const std::string& network = knowing.network;
    const bool disabled = network.find("disable_rdzv_get") != std::string::npos;
    if (reads == disabled || !knowing.knows_network) {
      found.emplace_back();
    } else if (reads) {
      found.push_back(fmt::format("FI_CXI_RDZV_PROTO=alt_read, and Slurm's network options are \"{}\"", network));
    } else {
      found.emplace_back("Slurm's network options have disable_rdzv_get, and FI_CXI_RDZV_PROTO is not alt_read");
    }
  }
  return outcome_of(job, found,
                    {.severity = Severity::error,
                     .why = "the protocol and the adapter must agree, or messages fail or take the slow way",
                     .fix = "#SBATCH --network=disable_rdzv_get together with export FI_CXI_RDZV_PROTO=alt_read"});
}

CheckOutcome check_ways_of_nccl(const JobReadings& job) {
  if (!has_gpus(job)) return does_not_apply("no GPU that computes is on the bus");
  if (job.size() == 1 && nodes_of(job) == 1) return does_not_apply("there is one rank");
  const bool several_nodes = nodes_of(job) > 1;
  std::vector<std::string> switches;
  bool is_slow = false;
  const std::vector<std::string> found = found_on(job, [&](const Readings& rank) {
    std::vector<std::string> own;
    const auto add = [&](const std::string& name) {
      own.push_back(fmt::format("{}={}", name, variable_of(rank, name)));
      if (std::ranges::find(switches, name) == switches.end()) switches.push_back(name);
    };
    // A plug-in goes around NCCL's own use of InfiniBand.
    if (several_nodes && !rank.infiniband.empty() && rank.plug_in.empty() && is_on(rank, "NCCL_IB_DISABLE")) {
      add("NCCL_IB_DISABLE");
      is_slow = true;
    }
    for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"}) {
      if (is_on(rank, name) && rank.gpus.size() > 1) add(name);
    }
    return fmt::format("{}", fmt::join(own, " "));
  });
  return outcome_of(job, found,
                    {.severity = is_slow ? Severity::error : Severity::warning,
                     .why = is_slow ? "GPUs of several nodes then exchange over TCP, which is many times slower than "
                                      "InfiniBand"
                                    : "GPUs of a node then exchange by slower ways than their own links",
                     .fix = fmt::format("unset {}", fmt::join(switches, " "))});
}

CheckOutcome check_cache_monitor(const JobReadings& job) {
  if (!has_slingshot(job)) return does_not_apply(no_slingshot);
  bool is_named = false;
  const std::vector<std::string> found = found_on(job, [&](const Readings& rank) -> std::string {
    const std::string monitor = variable_of(rank, "FI_MR_CACHE_MONITOR");
    is_named |= monitor == "memhooks";
    if (monitor == "memhooks") return "FI_MR_CACHE_MONITOR=memhooks";
    return monitor.empty() ? "FI_MR_CACHE_MONITOR is not set, and libfabric's default is memhooks" : "";
  });
  return outcome_of(job, found,
                    {.severity = is_named ? Severity::error : Severity::warning,
                     .why = "memhooks deadlocks with the allocators of RCCL and HIP",
                     .fix = "export FI_MR_CACHE_MONITOR=kdreg2"});
}

CheckOutcome check_gpu_support(const JobReadings& job) {
  if (std::ranges::none_of(job, [](const Readings& rank) { return is_on(rank, "MPICH_GPU_SUPPORT_ENABLED"); })) {
    return does_not_apply("MPICH_GPU_SUPPORT_ENABLED is not set, and this program needs none of it");
  }
  const auto is_open_mpi = [](const std::string& name) { return name.starts_with("libmpi.so.40"); };
  if (std::ranges::any_of(job, [&](const Readings& rank) { return std::ranges::any_of(rank.mpi, is_open_mpi); })) {
    return does_not_apply("MPICH_GPU_SUPPORT_ENABLED has no effect on Open MPI");
  }
  const std::vector<std::string> found = found_on(job, [](const Readings& rank) -> std::string {
    if (!is_on(rank, "MPICH_GPU_SUPPORT_ENABLED") || has_gpu_support(rank)) return "";
    return fmt::format("MPICH_GPU_SUPPORT_ENABLED={}, and the program has no libmpi_gtl_hsa or libmpi_gtl_cuda",
                       variable_of(rank, "MPICH_GPU_SUPPORT_ENABLED"));
  });
  return outcome_of(job, found,
                    {.severity = Severity::error,
                     .why = "Cray MPICH stops at its start where its library for GPUs is not linked, and this program "
                            "gives MPI no memory of GPUs",
                     .fix = "export MPICH_GPU_SUPPORT_ENABLED=0"});
}

CheckOutcome check_interfaces(const JobReadings& job) {
  const bool slingshot = has_slingshot(job), is_named = std::ranges::any_of(job, [](const Readings&rank) {
                                               return !variable_of(rank, "NCCL_SOCKET_IFNAME").empty();
                                             });
  if (!slingshot && !is_named) return does_not_apply("no interface hsn0, and NCCL_SOCKET_IFNAME is not set");
  std::vector<std::string> found, there;
  for (const Readings& rank : job) {
    std::vector<std::string> own;
    std::ranges::copy_if(rank.interfaces, std::back_inserter(own),
                         [&](const std::string& name) { return slingshot ? is_slingshot(name) : name != "lo"; });
    const auto expected = static_cast<size_t>(expected_interfaces(rank));
    const std::vector<std::string> missing = missing_interfaces(rank);
    if (there.empty() || own.size() < there.size()) there = own;
    if (slingshot && own.size() < expected) {
      found.push_back(fmt::format("{} of {} interfaces: {}", own.size(), expected, fmt::join(own, ", ")));
    } else if (!missing.empty()) {
      found.push_back(
          fmt::format("NCCL_SOCKET_IFNAME names {}, and there are {}", fmt::join(missing, ", "), fmt::join(own, ", ")));
    } else {
      found.emplace_back();
    }
  }
  return outcome_of(
      job, found,
      {.severity = Severity::error,
       .why = "RCCL and NCCL wait at their start for interfaces that are not there, and a missing adapter "
              "slows all ranks",
       .fix = fmt::format("export NCCL_SOCKET_IFNAME={}, or exclude the node with sbatch --exclude",
                          fmt::join(there, ","))});
}

CheckOutcome check_limits(const JobReadings& job) {
  if (!has_slingshot(job) && !has_infiniband(job)) {
    return does_not_apply("no adapter of Slingshot or InfiniBand, which need locked memory and open files");
  }
  constexpr int64_t least_files = 65536;
  std::vector<std::string> found;
  for (const Readings& rank : job) {
    std::vector<std::string> parts;
    if (rank.open_files >= 0 && rank.open_files < least_files) {
      parts.push_back(fmt::format("{} open files, fewer than {}", rank.open_files, least_files));
    }
    if (rank.locked_bytes >= 0) {
      parts.push_back(fmt::format("{} of locked memory", format_bytes(static_cast<double>(rank.locked_bytes))));
    }
    found.push_back(fmt::format("{}", fmt::join(parts, " and ")));
  }
  return outcome_of(job, found,
                    {.severity = Severity::warning,
                     .why = "connections to many ranks need a file each, and adapters lock the memory of their buffers",
                     .fix = "ulimit -n 65536 -l unlimited, in front of srun"});
}

}  // namespace terrace::doctor
