// Describes what a model is made of, as a table without tensors: one row for each unit, in the order in which units are
// computed. Each family of models derives the table from its configuration (schedule/description.h); the pipeline
// split, the complete list of a step, the memory that a run needs and the model FLOPs of a step are derived from the
// table. docs/model.md says what a family has to state.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/text/sizes.h"
#include "terrace/config/config.h"
#include "terrace/mesh/param_mark.h"
#include "terrace/schedule/operation.h"

namespace terrace::schedule {

// The settings of a rank's computation of a micro-batch on which FLOPs and bytes depend beside the configuration.
struct UnitTableOptions {
  int64_t samples = 1;  // of the micro-batch
  // The sizes of the micro-batch that the family's samples have beside their number (Description::sample_sizes). The
  // functions of description.h fill the sizes for samples of average size where they are left empty.
  Sizes sizes = {};
  int64_t element_bytes = 4;  // of the type that the model computes in
  int64_t tensor_ranks = 1;
  bool sequence_parallel = false;
  // Each of these has its part of the positions of each sample; the route is not automatic.
  int64_t context_ranks = 1;
  config::ContextRoute context_route = config::ContextRoute::ring;
  int64_t expert_ranks = 1;    // that divide the experts of each layer
  int64_t gradient_bytes = 4;  // of the type in which gradients are accumulated
  bool on_gpu = false;         // where the loss has more logits at a time (ops::loss_chunk_bytes)
  // Whether the kernels of products also apply activations and add to gradients of a wider type, as ours do, or leave
  // that to other kernels, as torch's on a GPU do. Of the table only `operations` depends on it.
  bool fused_products = true;
  // Whether they are ours for CPUs, which also compute SwiGLU and exponentials of logits. A planner, which does not
  // know the device, counts the passes of other kernels instead.
  bool cpu_products = false;
};

struct UnitParameter {
  std::string name;  // as in the model and in checkpoints
  ParamMark mark;    // of the whole parameter, not yet cut
  // Whether its weights are fp32 also where the model computes in a 16-bit type (nn::Build::in_fp32).
  bool always_fp32 = false;

  bool operator==(const UnitParameter&) const = default;
};

// A tensor that is not trained (nn::Buffer): fp32, and whole on every rank that computes its unit.
struct UnitBuffer {
  std::string name;
  std::vector<int64_t> shape;

  bool operator==(const UnitBuffer&) const = default;
};

struct UnitRow {
  std::string name;                            // "blocks.3.attention"
  int64_t layer = -1;                          // units of one layer on one stage are one segment; -1: of no layer
  std::vector<UnitParameter> parameters = {};  // a tied parameter belongs to the first unit that reads it
  std::vector<UnitBuffer> buffers = {};
  std::vector<int64_t> reads_also = {};  // other units whose parameters this unit's computation reads
  // Tensors of the batch that the unit reads, by name: a rank loads those of its own units.
  std::vector<std::string> batch_tensors = {};
  // The backward needs the autograd graph of the unit before as well, as derivatives of an output with respect to an
  // input do: both are in one segment, whatever their layers, and no pipeline stage ends between them.
  bool shares_graph = false;

  // Floating-point operations for one micro-batch on all its tensor and context ranks together, two for each
  // multiply-add; without what recompute and fused kernels repeat and without what ranks compute more than once.
  double forward_flops = 0, input_gradient_flops = 0, weight_gradient_flops = 0;
  // FLOPs of forward and backward together, as published utilisation figures count them.
  double counted_flops = 0;
  // Elements of parameters that a token does not use, as those of experts that it is not given to.
  int64_t inactive_elements = 0;

  // Bytes of tensors on one rank for one micro-batch. Kept from the forward to the backward: the unit's input and what
  // it saves, and not its output. There is a number for each config::Recompute; that of `full` is what a segment keeps
  // that begins with this unit. 0 for the model's last unit, whose backward follows at once.
  std::array<int64_t, 3> kept_bytes = {};
  // Kept from a backward that defers its weight gradients to these: inputs of the weights and gradients of their
  // outputs. 0 where a unit defers none, as the last one.
  int64_t deferred_bytes = 0;
  int64_t output_bytes = 0;     // handed to the next unit
  int64_t temporary_bytes = 0;  // the most that exists only while the unit or its gradients are computed

  // The operations that one rank executes for one micro-batch, from which a planner computes times. The last unit
  // computes its gradients at once, together with its forward, but they are listed as gradients.
  Operations operations = {};
};

using UnitTable = std::vector<UnitRow>;

// The tensors of a batch that the units read, by name.
std::set<std::string, std::less<>> batch_tensors_of(const UnitTable& table);

// Elements of a parameter in the whole model, and of the part that a rank holds of `tensor_ranks` ranks that cut layers
// and `expert_ranks` that divide experts.
int64_t elements(const ParamMark& mark);
int64_t elements_on_rank(const ParamMark& mark, int64_t tensor_ranks, int64_t expert_ranks = 1);
// Elements of all parameters of the whole model.
int64_t elements(const UnitTable& table);

// Elements of all parameters that a token uses.
int64_t active_elements(const UnitTable& table);

// Bytes of the unit's buffers.
int64_t buffer_bytes(const UnitRow& row);

// Model FLOPs of a micro-batch's forward and backward, as MFU counts them.
double counted_flops(const UnitTable& table);

}  // namespace terrace::schedule
