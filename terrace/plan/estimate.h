// Estimates, beside the time and memory of one step, tokens and days of a training, energy, checkpoints, the roofline,
// and the changes that would help most.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "terrace/plan/prediction.h"

namespace terrace::plan {

// Training on a number of items for each parameter of the model.
struct TrainingEstimate {
  double items_per_parameter = 0;
  double items = 0;
  double seconds = 0;
  double device_hours = 0;
  double energy_joules = 0;  // of the devices; 0: the machine states no power
  double flops = 0;          // of the model: forward and backward
};
TrainingEstimate training_estimate(const Prediction& prediction, const Target& target, double items_per_parameter);
// The trainings of 20 and of 200 tokens a parameter, between which language models lie; none for families that count
// other items, of which no such rule is known.
std::vector<TrainingEstimate> usual_trainings(const Prediction& prediction, const Target& target,
                                              const config::Config& config);

// Data of tokens, as `terrace data prepare` stores them: 2 bytes a token, or 4 for a vocabulary of more than 65,536.
double stored_token_bytes(const config::Config& config);
// Bytes of plain text a token: 3 to 4 of English with the vocabularies in use.
inline constexpr double least_text_bytes = 3, most_text_bytes = 4;

// Estimate of what a save takes however few its bytes are.
inline constexpr double least_save_seconds = 1;
// The first rank looks at the size of every file, one after another. One thread looks at over 2,000 files of Lustre in
// a second ("Dell Storage for HPC with Intel Enterprise Edition for Lustre software", file metadata operations).
inline constexpr double seconds_per_file = 0.0005;
// Estimate of the link by which a device copies its part of a checkpoint to the node's memory: PCIe 4 of 16 lanes.
inline constexpr double copy_bandwidth = 20e9;

// A checkpoint has the fp32 weights and both moments: 12 bytes for each parameter. Each rank writes its equal share of
// each of the three in a file of its own, and what it keeps beside them (saved_bytes in memory/copied_states.h).
struct CheckpointEstimate {
  double bytes = 0;
  // To write it: its bytes by the bandwidth of the storage, but at least `least_save_seconds`, since files are made and
  // all ranks wait for each other, and `seconds_per_file`; 0: the machine states no storage.
  double seconds = 0;
  // To copy a rank's share within the node, by the slower of `copy_bandwidth` and the device's memory, which reads and
  // writes it: training stands still for so long where the copy is written beside it.
  double copy_seconds = 0;
  double interval_seconds = 0;  // Young's best interval sqrt(2 C M) for a mean time M between failures; 0: not stated
};
CheckpointEstimate checkpoint_estimate(const Prediction& prediction, const Target& target);

// One kind of work of the slowest stage.
struct RooflinePoint {
  TimeKind kind;
  double seconds = 0;  // of a step
  double share = 0;    // of the step
  double flops_per_second = 0;
  double peak_share = 0;
};
std::vector<RooflinePoint> roofline(const Prediction& prediction, const Target& target, const config::Config& config);

// The work of the forward and the backward of one micro-batch on a device of the slowest stage, with what recompute
// repeats.
struct ArithmeticIntensity {
  double flops = 0;  // of products and attention, as executed: causal attention that is fused computes half
  double bytes = 0;  // of memory, read and written; operands of a product once
  double flops_per_byte = 0;
  // Above it the peak rate limits a computation, below it memory: the peak over the bandwidth of memory.
  double ridge = 0;
};
ArithmeticIntensity arithmetic_intensity(const Prediction& prediction, const Target& target,
                                         const config::Config& config);
// "212 FLOP a byte of memory, 3.1e+13 and 1.46e+11 of one micro-batch; the ridge is at 147".
std::string text_of(const ArithmeticIntensity& intensity);

// Says in a sentence what most of the step's time goes to.
std::string limit(const Prediction& prediction);

// A change of one key or two, and the step that it leads to.
struct Change {
  std::vector<std::string> settings;  // "layout.tensor=4", as for --set
  config::Config config;
  Prediction prediction = {};
  double gain = 0;  // share of the step's time that it saves
};

// The feasible changes of the configuration that save most of its `step_seconds`, best first; at most `count`. One by
// which tensor groups leave the node is among them only if it saves more than predictions of such layouts err by.
std::vector<Change> best_changes(const config::Config& config, const Target& target, double step_seconds, size_t count);

// Feasible layouts close to one that is not: the fewest changed keys first, then the fastest.
std::vector<Change> nearest_feasible(const config::Config& config, const Target& target, size_t count);

}  // namespace terrace::plan
