// One training step instruction by instruction, with its memory: predicted by plan/ or measured in training. Both have
// the same form, so a report puts one above the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/observe/trace.h"

namespace terrace::observe {

// A figure by its name, such as bytes of the category "weights".
struct NamedFigure {
  std::string name;
  double value = 0;

  bool operator==(const NamedFigure&) const = default;
};

// The time in which an instruction was at work, in seconds since the step's beginning.
struct StepEvent {
  std::string name;  // "F3 segment 2"
  std::string kind;  // what it is drawn as: "forward", "loss", "backward", "input gradient", "weight gradient",
                     // "transfer", "update", "wait" (for communication or another stage)
  int64_t lane = 0;  // 0: computation; l: StepRecord::links[l - 1]
  double begin = 0, end = 0;

  bool operator==(const StepEvent&) const = default;
};

struct MemorySample {
  double seconds = 0;  // since the step's beginning
  double bytes = 0;    // in use by tensors

  bool operator==(const MemorySample&) const = default;
};

// The work of one rank of a pipeline stage; all ranks of a stage do the same.
struct StageRecord {
  int64_t stage = 0, rank = 0;
  std::vector<NamedFigure> seconds = {};       // of the step, by what they went to; the sum is about the step
  std::vector<NamedFigure> memory_bytes = {};  // by category; the sum is the most that is in use at a time
  std::vector<StepEvent> events = {};          // by lane in order of time
  std::vector<MemorySample> memory = {};       // in order of time

  bool operator==(const StageRecord&) const = default;
};

// The communication of one group (docs/cost_model.md) by a rank of the stage where it takes longest. The group
// "stages" sends activations and gradients to other stages.
struct CommunicationRecord {
  std::string name;           // "shard_gradients", "tensor"
  std::string tier = {};      // whose links limit it: "node"
  int64_t stage = -1;         // of the rank; -1: not known
  double bytes = 0;           // that this rank sends in the step
  double moving_seconds = 0;  // of all its calls, hidden ones included; 0: not measured
  // The part of moving_seconds that computation waited for; none where it is not known apart from waits for other
  // stages.
  std::optional<double> waiting_seconds = 0;

  bool operator==(const CommunicationRecord&) const = default;
};

// One kind of work of the stage that computes longest, for the roofline.
struct WorkRecord {
  std::string name;  // "products", "attention", "elements"
  double seconds = 0;
  double flops = 0;
  double bytes = 0;  // read and written

  bool operator==(const WorkRecord&) const = default;
};

struct StepRecord {
  std::string source = {};    // "predicted" or "measured"
  std::string machine = {};   // name of the description; "" for measured steps without one
  std::string software = {};  // name of its description; "" for measured steps without one
  int64_t step = 0;           // number of the measured step; 0 for predicted ones
  double step_seconds = 0;
  double model_flops = 0;               // of the step on all ranks
  double peak_flops = 0;                // FLOP/s of one rank; 0: not known
  double memory_bandwidth = 0;          // bytes/s of one rank; 0: not known
  std::vector<std::string> links = {};  // "node"; "node (2)" where predicted calls share a tier's links
  std::vector<StageRecord> stages = {};
  std::vector<CommunicationRecord> groups = {};
  std::vector<WorkRecord> operations = {};

  bool operator==(const StepRecord&) const = default;
};

// Names of the time that a stage waits for other stages: measured, and the two parts that a prediction divides it into.
// The bubble is the time that the stage would wait if no two communicators shared a link; in the rest it waits for
// tensors that come late because a transfer shared its link with other calls.
inline constexpr const char* stage_waits = "waits for stages";
inline constexpr const char* bubble_waits = "waits in the bubble";
inline constexpr const char* queued_waits = "waits for queued transfers";

// The category of measured memory that is neither states nor gathered: activations, temporary tensors and messages.
inline constexpr const char* in_step_memory = "activations and temporary";

// The files of a run's folder.
inline constexpr std::string_view predicted_step_file = "predicted_step.json";
inline constexpr std::string_view measured_step_file = "measured_step.json";

Json json_of(const StepRecord& record);
// Throws Json::exception where a key is missing or has another type.
StepRecord step_record_of(const Json& json);
// Throws UserError with the file and the key that is missing or has another type.
StepRecord read_step_record(const std::filesystem::path& path);
void write_step_record(const StepRecord& record, const std::filesystem::path& path);

// One lane of computation and one for each link that is used, for each stage that has events. Waiting is what lies
// between spans.
Trace trace_of(const StepRecord& record);

// The value of the figure with this name; 0 if there is none.
double figure(const std::vector<NamedFigure>& figures, std::string_view name);
double sum(const std::vector<NamedFigure>& figures);
// Adds to the figure with this name, which is appended if there is none.
void add(std::vector<NamedFigure>& figures, const std::string& name, double value);

}  // namespace terrace::observe
