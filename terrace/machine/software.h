// Describes a program by what changes the time of the same layout on the same machine. Descriptions are TOML files
// (machines/software/): "terrace" describes this program, "megatron" the one of published tables.
#pragma once

#include <string>
#include <vector>

namespace terrace::machine {

// The data that pass through the memory of the host in jobs of several nodes, because network cards or other devices
// do not read a device's memory: none, those between nodes, or besides those between neighbours on the innermost tier.
enum class HostStaging { none, nodes, neighbours };

struct Software {
  std::string name = "terrace";
  std::string about = {};
  std::string base = {};  // the description that this one began with, by name; "": none
  // Words by which tables of published runs name the program, such as "Megatron-LM".
  std::vector<std::string> known_as = {};

  // The rates of products and of fused attention that its libraries reach, as shares of the machine's achievable ones.
  double products = 1, attention = 1;
  HostStaging host_staging = HostStaging::none;

  // Attention in one kernel that keeps no scores; without, scores are written and read by each of its operations.
  bool fused_attention = true;
  double score_passes = 0;  // of a forward without it: how often scores are read or written, in the model's type
  double backward_score_passes = 0;  // passes over scores in backward; 0: as often as in forward
  // Bytes that the operations between products read and write, as a multiple of those of fused ones: 1 if bias,
  // activation, dropout and residual are parts of other kernels.
  double element_passes = 1;
  // The number of times that the activation between two products reads or writes as many bytes as it returns, in
  // forward; 0: as in this program.
  double activation_passes = 0;
  // Bytes that the loss reads and writes for each logit, in forward and backward together; 0: as in this program.
  double logit_bytes = 0;
  // Operations between products reach the rate of a copy, and not `passes`, which is measured with this program's
  // kernels.
  bool passes_like_copies = false;
  // With sequence parallelism, gathered hidden states of several sequences are copied into their order; without, the
  // program keeps the positions of all sequences next to each other.
  bool copies_sequences = true;
  // Share of a forward's products that recompute = "selective" repeats, with all that stands between products and
  // without attention; 0: it repeats attention alone, as in this program.
  double selective_products = 0;
  // With recompute = "full" a layer's last product and its sum are not repeated, since backward needs nothing of them.
  bool stops_recompute = false;
  // Kernels that one unit launches beside products and attention, in its forward and in its backward.
  double forward_kernels = 0, backward_kernels = 0;
  bool reduces_while_computing = true;  // gradients are reduced during the last backward, not after it
  bool gathers_while_computing = true;  // updated weights are gathered during the next forward
  bool sends_while_computing = true;    // pipeline transfers do not hold up the stage
  double send_bandwidth = 0;            // bytes/s that one pipeline transfer reaches at most; 0: what its links reach
  // Seconds from the end of a forward or backward of a chunk until the device computes the next one, if the host waits
  // for the device in between and only then launches again.
  double pause_seconds = 0;
  bool sums_while_computing = false;  // sums of tensor parallelism overlap with products
  bool stages_by_layers = false;      // stages have equal numbers of layers, the embedding and head in addition
  // Gradients are summed whole on every rank, though each rank updates a part of the weights.
  bool sums_whole_gradients = false;
  double pause_between_steps_seconds = 0;  // of the host, from the end of an update until the next step computes
  double optimizer_passes = 1;             // bytes that the update reads and writes, as a multiple of a fused one
  // Between stages each tensor rank sends one part of the hidden states, and the receiving ranks gather the whole; a
  // rank keeps the part that it received beside the whole. Otherwise each rank sends the whole.
  bool sends_parts = false;
  bool two_hop_routes = true;  // movements among several nodes can go by rails
  // Bytes of each score that attention without one kernel keeps for backward, its dropout included.
  double score_memory = 0;
  double logit_memory = 0;        // bytes of each logit of a micro-batch in the loss at most; 0: as in this program
  double selective_kept = 1;      // share of a layer's activations that recompute = "selective" keeps
  bool copies_gradients = false;  // the sums of gradients of 16 bits are kept in fp32 beside them
  double allocator_slack = 0;     // share of activations by which the memory that is taken exceeds that in use

  bool operator==(const Software&) const = default;
};

// These functions do for software what load() and parse() of machine.h do for machines. A file with a key `base` has
// only what differs from the built-in description of that name.
Software load_software(const std::string& file_or_name);
Software parse_software(const std::string& toml, const std::string& file_name);
std::string dump(const Software& software);
std::vector<std::string> software_names();
std::string software_named_in(const std::string& text);

}  // namespace terrace::machine
