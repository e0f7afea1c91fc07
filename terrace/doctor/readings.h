// The readings that one rank takes of its node and of itself, as data that the ranks of a job exchange. Checks judge
// readings and read nothing themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/doctor/node_view.h"

namespace terrace::doctor {

// A GPU on the node's buses that computes. GPUs of AMD that draw, or have less than 16 GiB of their own memory, as
// those in processors of workstations and notebooks, are left out.
struct Gpu {
  std::string address = {};                  // on the node's buses: "0000:c1:00.0"
  std::string vendor = {};                   // "AMD" or "NVIDIA"
  std::string model = {};                    // PCI's device number: "0x7408"
  int64_t numa = -1;                         // -1: not known
  std::string cores = {};                    // cores nearest to the GPU, as the kernel lists them
  std::string target = {};                   // target of its code: "gfx90a"; "" where it is not known
  int64_t memory_bytes = 0, used_bytes = 0;  // 0 where the driver has no file of them
};

struct Disk {
  std::string path = {};
  std::string file_system = {};  // such as "nfs4"; "" where it is not known
  int64_t bytes = 0, free_bytes = 0;
};

// Errors of a memory since the driver was loaded. Corrected errors cost little and show that a part wears out.
struct MemoryErrors {
  std::string place = {};  // "GPU 0000:c1:00.0", or "the node's memory (mc0)"
  int64_t corrected = 0, uncorrected = 0;
};

// Rates of one rank, each a second, and how unequal its times are; 0: not known.
struct Speed {
  double product_flops = 0;    // of matrix products
  double product_spread = 0;   // standard deviation of the times of equal products as a share of their median
  double longest_product = 0;  // in medians
  double copied_bytes = 0;     // read and written by copies
  std::vector<std::pair<int64_t, double>> links = {};  // other ranks, and bytes that are sent to each of them
};

// The work that other processes and, in a virtual machine, other machines did on the cores of a rank while it looked.
struct OtherWork {
  double seconds = -1;       // of the look; -1: not looked
  double cores = 0;          // in cores: 1.5 is one core and half of another
  std::string busiest = {};  // the process that did most of it: "python3 (process 4711)"; "" where it is not seen
};

// Numbers of limits that are no count.
inline constexpr int64_t unlimited = -1, unknown = -2;

struct Readings {
  int64_t rank = 0;
  std::string host = {};
  std::map<std::string, std::string> environment = {};  // the variables that checks look at, where they are set

  std::string cores = {};                             // the rank may run on these
  std::string node_cores = {};                        // the node has these
  std::string job_cores = {};                         // the job has these on the node
  double quota = 0;                                   // of the control groups, in cores; 0: none
  std::map<std::string, int64_t> numa_of_cores = {};  // by list of cores: "0-15"
  std::vector<int64_t> first_cores = {};              // the first core of each region with an L3 cache, ascending
  OtherWork other_work = {};

  std::vector<Gpu> gpus = {};  // of the node, by address
  bool knows_used_gpus = false;
  std::vector<std::string> used_gpus = {};  // addresses of those that the rank can use, in its order
  std::vector<std::string> targets = {};    // of kernels in the program, where a GPU is AMD's: "gfx90a:xnack-"
  bool loads_hip = false;                   // the program uses AMD's run-time library
  int64_t cuda = 0;                         // the release of CUDA's run-time library that it uses: 13; 0: none
  std::string driver = {};                  // of NVIDIA, for the program: "580.65.06"; "" where it is not known
  std::vector<std::string> mpi = {};        // names of the libraries of MPI that it uses
  std::vector<MemoryErrors> memory_errors = {};

  std::vector<std::string> interfaces = {};      // of the network, those that are not down
  std::vector<std::string> infiniband = {};      // adapters
  std::string plug_in = {}, plug_in_error = {};  // RCCL's or NCCL's, with its folder; why it cannot be loaded
  int64_t open_files = unknown, locked_bytes = unknown;

  std::map<std::string, std::string> files = {};  // program and libraries by name: size and checksum
  Disk node_disk = {}, run_folder = {}, home = {}, shared_memory = {};
  std::map<std::string, Disk> caches = {};  // by the environment variable that names each
  double oldest_days = -1;                  // since the oldest file of the run's folder was last used; -1: not known
  double save_seconds = -1;                 // that the files of its newest checkpoint were written over; -1: not known
  double seconds_left = -1;                 // of the job of Slurm; -1: not known
  bool knows_network = false;
  std::string network = {};  // options of Slurm's job for the network, if they are known
  int64_t nodes = 0;         // of the launch; 0: those of the readings

  // The speed that the rank reached while all ranks measured at the same time, and the one in the machine's
  // description.
  Speed measured = {}, described = {};
};

struct ReadOptions {
  int64_t rank = 0;
  std::filesystem::path run_folder = {};  // "": none
  bool uses_gpus = true;                  // otherwise the GPUs of the node are left out
  bool whole_files = true;                // checksums are of whole files; otherwise of their first and last MiB
};

// Reads the node and this process. Never throws for what is missing there.
Readings read_node(const NodeView& view, const ReadOptions& options);

// The parts of read_node(), each in a file of its own, in the order in which they are called.
void read_cores(const NodeView& view, Readings& readings);
void read_other_work(const NodeView& view, Readings& readings);  // after read_cores()
void read_gpus(const NodeView& view, Readings& readings);
void read_memory_errors(const NodeView& view, Readings& readings);
void read_program(const NodeView& view, const ReadOptions& options, Readings& readings);
void read_disks(const NodeView& view, const ReadOptions& options, Readings& readings);
void read_network(const NodeView& view, Readings& readings);
// Names of the libraries of MPI that the process has loaded.
std::vector<std::string> mpi_libraries(const NodeView& view);
void read_slurm(const NodeView& view, const ReadOptions& options, Readings& readings);

// Texts for messages among ranks: text_of() gives JSON, and readings_of() returns the readings that text_of() was
// given.
std::string text_of(const Readings& readings);
Readings readings_of(const std::string& text);

}  // namespace terrace::doctor
