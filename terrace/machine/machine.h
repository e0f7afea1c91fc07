// Describes a machine: its devices, and the links between them as nested tiers. Descriptions are TOML files
// (machines/), of which each figure has its source in a comment; docs/machines.md explains every key.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/machine/noise.h"
#include "terrace/machine/prediction_errors.h"
#include "terrace/machine/software.h"

namespace terrace::machine {

// The rates at which a device computes in one type; FLOP/s.
struct ComputeRate {
  double peak = 0;  // of dense products, as the maker states it; MFU and HFU are shares of it. 0: the type is missing
  double achievable = 0;  // of a large product
  double attention = 0;   // fused attention as a share of `achievable`; 0: as Device::attention says
  // `achievable` in jobs of several devices, where all wait for the slowest under its limit of power; 0: as much.
  double achievable_together = 0;
  double passes = 0;  // bytes/s of norms and other passes over tensors; 0: Device::memory_bandwidth

  bool operator==(const ComputeRate&) const = default;
};

// The part of a product's result that one compute unit computes at a time. A library has kernels with several tiles and
// takes the one with which the product is fastest.
struct Tile {
  int64_t rows = 1, columns = 1;
  double efficiency = 1;  // share of the achievable rate that a product of whole tiles on all compute units reaches

  bool operator==(const Tile&) const = default;
};

// The device that a rank computes with: a GPU, one of the two dies of an MI250X, or a rank's share of a processor's
// cores.
struct Device {
  std::string name;
  double memory_bytes = 0;
  double reserved_bytes = 0;                 // part of memory_bytes, for the driver, libraries and their kernels
  double memory_bandwidth = 0;               // bytes/s that a large copy reads and writes, as measured
  std::array<ComputeRate, 3> products = {};  // by config::Precision
  ComputeRate fp8 = {};       // rates of products whose factors were quantized to 8-bit floats; a peak of 0: not stated
  int64_t compute_units = 1;  // that compute one tile each
  std::vector<Tile> tiles = std::vector<Tile>(1);
  double tile_start = 0;  // a tile's begin and end take as long as this many steps of its sum
  double attention = 1;   // the rate of fused attention as a share of the achievable rate of products
  // Bytes/s of fp32 values that are quantized in blocks (to nearest and at random) and decoded; 0: memory_bandwidth.
  double encode = 0, encode_at_random = 0, decode = 0;
  double kernel_seconds = 0;  // of the device for a kernel without work
  double launch_seconds = 0;  // of the host for one launch
  double power_watts = 0;     // under load; 0: not stated
  double computing_beside_calls =
      1;  // how many times as long computation takes while a call of the device is under way

  const ComputeRate& rate(config::Precision precision) const { return products[static_cast<size_t>(precision)]; }
  double attention_rate(config::Precision precision) const;  // FLOP/s
  double pass_bandwidth(config::Precision precision) const;  // bytes/s
  bool operator==(const Device&) const = default;
};

// The way in which the ranks of a group exchange data over links: each passes blocks on to the next one, as NCCL does,
// or sends its own to every other rank, as MPI libraries do where the messages are few.
enum class Exchange { ring, direct };

// Devices that a kind of link connects: those of a pair, of a node, of the whole machine.
struct Tier {
  std::string name;           // "pair", "node", "network"
  int64_t devices = 1;        // of one unit of this tier; a multiple of the tier inside it
  double link_bandwidth = 0;  // bytes/s that one link carries in one direction, as collectives reach it
  double devices_per_link =
      1;  // devices inside that share one link out of the unit of the tier inside; 0.5: each has two
  double latency_seconds = 0;          // of one step of a collective between neighbours, with the software's share
  Exchange exchange = Exchange::ring;  // of groups for which this is the outermost tier that they use
  // Seconds by which each further message of a rank lengthens a direct exchange, where many are under way at a time;
  // 0: as long as a step.
  double message_seconds = 0;
  // Direct exchanges among more ranks than these reach only a share of link_bandwidth; 0: all reach it.
  int64_t direct_ranks = 0;
  double direct_share = 1;

  bool operator==(const Tier&) const = default;
};

// The part of a node that its devices share.
struct Host {
  double memory_bytes = 0;     // of a node, beside that of its devices; 0: not stated
  bool holds_devices = false;  // the devices are parts of the node's processors, and compute in this memory
  // Bytes/s that all devices of a node together send, and receive as many, if the data pass through the host's memory
  // (Software::host_staging); 0: not stated.
  double staging_bandwidth = 0;

  bool operator==(const Host&) const = default;
};

// Memory of a device that the library of collectives (NCCL, RCCL) takes for one communicator of several members.
struct Communicators {
  double bytes = 0;       // with three and more members; 0: not stated
  double pair_bytes = 0;  // with two members; 0: as many
  int64_t channels = 1;   // with which both move data; a communicator limited to fewer takes a smaller share

  bool operator==(const Communicators&) const = default;
};

// Bandwidths of the file system where checkpoints are written and data are read.
struct Storage {
  double node_bandwidth = 0;   // bytes/s of one node; 0: not stated
  double total_bandwidth = 0;  // of all nodes together

  bool operator==(const Storage&) const = default;
};

// The times that pass before a job's program trains; seconds.
struct Start {
  // The launcher starts the program on every rank, which loads its libraries, without communicators. Estimate: a
  // minute.
  double seconds = 60;
  // Further time for each rank of the job: ranks find each other and make their communicators. Published: under 30 s on
  // more than 10,000 GPUs (Jiang and others, MegaScale, NSDI 2024), 265 s on 98,304 with NCCL (Si and others, arXiv
  // 2510.20171), which are 3.0 and 2.7 ms.
  double seconds_per_rank = 0.003;
  // A job waits so long in the queue; no value: not stated.
  std::optional<double> queue_seconds = {};

  double seconds_of(int64_t ranks) const { return seconds + seconds_per_rank * static_cast<double>(ranks); }
  bool operator==(const Start&) const = default;
};

// The longest time that jobs of at most so many nodes may take.
struct TimeLimit {
  std::string partition = {};  // in which the limit holds; "": in all
  int64_t nodes = 1;
  double seconds = 0;

  bool operator==(const TimeLimit&) const = default;
};

// Settings with which jobs are started on the machine under Slurm, for terrace launch. Options and values stand in a
// job's script as they are; the shell there replaces variables such as $USER.
struct Launch {
  std::string partition, account;  // of sbatch; "": the site's default
  bool needs_account = false;      // jobs without an account are refused by the site
  double longest_seconds = 0;      // of a job; 0: not stated
  // Limits by nodes and partition, in place of longest_seconds: a job has the limit of the fewest nodes that are as
  // many as its own, and a partition takes no job of more nodes than all of its limits name.
  std::vector<TimeLimit> longest_times = {};
  int64_t cores_per_rank = 0;  // 0: not asked for
  std::string mpi = "pmix";    // of srun's --mpi; "": the site's default
  std::vector<std::string> sbatch_options = {}, srun_options = {}, modules = {};
  // Entries such as "OMP_NUM_THREADS=7": of all processes, of those of jobs of one node besides, and those that are set
  // in each rank, where SLURM_LOCALID is known.
  std::vector<std::string> environment = {}, one_node_environment = {}, rank_environment = {};
  std::string node_disk = {};  // a folder on a disk of each node, for copies of data and checkpoints; "": none
  double node_disk_bytes = 0;  // that a job may fill there

  bool operator==(const Launch&) const = default;
};

struct Machine {
  std::string name;
  std::string about;  // one sentence
  // Words by which tables of published runs name the machine or its devices, such as "A100 80GB".
  std::vector<std::string> known_as = {};
  Device device;
  std::vector<Tier> tiers;  // from the innermost to the outermost, which has all devices
  Host host = {};
  Communicators communicators = {};
  Storage storage;
  double node_failure_hours = 0;  // mean time between failures of one node; 0: not stated
  Start start = {};
  Launch launch = {};
  Noise noise = {};  // none: every device takes the same time for the same computation
  // How far predictions with this description were from runs on the machine, by kind of layout, as terrace plan --fit
  // writes them; a kind that is missing errs as published runs do.
  std::vector<PredictionErrors> errors = {};
  std::string file = {};  // that the description was read from; takes no part in the comparison; "": none

  int64_t devices() const { return tiers.empty() ? 1 : tiers.back().devices; }
  // Devices in a unit of the tier with this name; 1 if there is none.
  int64_t devices_of(std::string_view tier) const;
  // The file, or the name if there is none, for messages.
  const std::string& source() const { return file.empty() ? name : file; }
  bool operator==(const Machine& other) const {
    return name == other.name && about == other.about && known_as == other.known_as && device == other.device &&
           tiers == other.tiers && host == other.host && communicators == other.communicators &&
           storage == other.storage && node_failure_hours == other.node_failure_hours && start == other.start &&
           launch == other.launch && noise == other.noise && errors == other.errors;
  }
};

// The machine as a job of the program on so many devices finds it: with achievable_together in place of achievable if
// there are several, with the share of these rates that the program's libraries reach, and with links that are no
// faster than the host's memory where data pass through it. Each device has an equal share of that memory's bandwidth,
// since all devices of a node communicate at the same time.
Machine for_job(const Machine& machine, const Software& software, int64_t devices);

// Says what keeps a run of this precision from being predicted: "has no [device.fp32]; add it, or set train.precision
// to bf16"; "" if the machine has the rates.
std::string missing_rate(const Machine& machine, config::Precision precision);

// Says that the machine has no [device.fp8] and which built-in machines have one; "" if it states these rates.
std::string missing_fp8(const Machine& machine);

// Reads a description from a file, or the built-in one of this name ("frontier"). Throws UserError with every problem:
// file, key, line, the figure and its bounds; for an unknown name the names that exist.
Machine load(const std::string& file_or_name);
// The text is that of `file_name`, which messages name.
Machine parse(const std::string& toml, const std::string& file_name);
// The description as TOML, which parse() reads back to an equal Machine.
std::string dump(const Machine& machine);

// The built-in descriptions: those of machines/ when this program was built.
std::vector<std::string> names();
// The built-in machine of which a text has the name, or the longest of the words in `known_as`; "" if there is none.
// Capital and small letters count as the same.
std::string named_in(const std::string& text);

}  // namespace terrace::machine
