// Looks the times of instructions up in tables, which are computed once for each segment, movement and neighbour.
#include "terrace/plan/time/predicted_costs.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/mesh/experts.h"

namespace terrace::plan {
namespace {

using schedule::Movement;
using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

// The reductions of each micro-batch's gradients, where these are cut. They cannot be deferred until the last backward.
bool reduces_micro_batch(const StepInstruction& one, Kind kind) {
  return one.kind == kind && one.movement == Movement::reduce;
}

// Whether a program that reduces after the last backward defers the movement until then.
bool is_deferred(const StepInstruction& one) {
  const bool moves = one.kind == Kind::begin_movement || one.kind == Kind::end_movement;
  return moves && (one.movement == Movement::reduce_across || one.movement == Movement::reduce_replicas ||
                   one.movement == Movement::gather_gradients);
}

// The end of a movement that the program waits for where it begins.
bool ended_at_once(const StepInstruction& one, const machine::Software& software) {
  if (!software.reduces_while_computing && reduces_micro_batch(one, Kind::end_movement)) return true;
  return !software.gathers_while_computing && one.kind == Kind::end_movement && one.movement == Movement::publish &&
         schedule::is_first_hop(one);
}

CollectiveKind collective_of(schedule::TensorCollective::Kind kind) {
  switch (kind) {
    case schedule::TensorCollective::Kind::all_reduce:
      return CollectiveKind::all_reduce;
    case schedule::TensorCollective::Kind::all_gather:
      return CollectiveKind::all_gather;
    case schedule::TensorCollective::Kind::reduce_scatter:
      return CollectiveKind::reduce_scatter;
  }
  return CollectiveKind::all_reduce;
}

}  // namespace

bool is_transfer(Kind kind) { return kind == Kind::begin_movement || schedule::is_send(kind); }

schedule::StepInstructions planned_list(const PlannedRun& run, const schedule::Instructions& stage,
                                        int64_t micro_batches, int64_t number, const machine::Software& software) {
  const schedule::Movements movements = run.movements(run.config.layout);
  const schedule::StepInstructions list =
      schedule::training_step(stage, micro_batches, run.stages.at(static_cast<size_t>(number)), movements);
  schedule::StepInstructions planned, computed, deferred;
  for (const StepInstruction& one : list) {
    const bool publishes =
        one.kind == Kind::begin_movement && one.movement == Movement::publish && schedule::is_first_hop(one);
    if (publishes) {
      planned.push_back(one);
      if (!software.gathers_while_computing) {
        planned.push_back(one);
        planned.back().kind = Kind::end_movement;
      }
    } else if (ended_at_once(one, software)) {
      continue;
    } else if (!software.reduces_while_computing && is_deferred(one)) {
      deferred.push_back(one);
    } else if (!software.reduces_while_computing && reduces_micro_batch(one, Kind::begin_movement)) {
      computed.push_back(one);
      computed.push_back(one);
      computed.back().kind = Kind::end_movement;
    } else {
      if (one.kind == Kind::finish_gradients) computed.insert(computed.end(), deferred.begin(), deferred.end());
      computed.push_back(one);
    }
  }
  planned.insert(planned.end(), computed.begin(), computed.end());
  return planned;
}

PredictedCosts::PredictedCosts(const PlannedRun& run, const machine::Machine& machine,
                               const machine::Software& software, BlockProducts block_products)
    : run_(run),
      machine_(machine::for_job(machine, software, run.mesh.size())),
      software_(software),
      block_products_(block_products),
      algorithms_{Algorithm::ring, Algorithm::tree},
      tensor_(place_of(run.mesh.group(0, "tensor"), machine_, run.mesh.size())) {
  if (run.mesh.has("context")) context_ = place_of(run.mesh.group(0, "context"), machine_, run.mesh.size());
  if (run.expert_sizes) {
    experts_ = place_of(mesh::expert_group(run.mesh, 0, run.config.layout.experts), machine_, run.mesh.size());
  }
  time_segments();
  time_movements();
  time_sends();
  time_stages();
}

void PredictedCosts::time_segments() {
  ComputingRank rank{.machine = machine_, .software = software_, .precision = run_.config.train.precision};
  if (tensor_.ranks > 1) {
    rank.tensor_collective = [this](schedule::TensorCollective::Kind kind, double bytes) {
      return collective_time(collective_of(kind), bytes, tensor_, machine_, algorithms_).seconds;
    };
  }
  if (context_.ranks > 1) {
    rank.context_transfer = [this](schedule::ContextTransfer::Kind kind, double bytes) {
      return transfer_seconds(kind, bytes);
    };
  }
  if (experts_.ranks > 1) {
    rank.expert_exchange = [this](double bytes) {
      const auto ranks = static_cast<double>(experts_.ranks);
      return collective_time(CollectiveKind::all_to_all, bytes * ranks / (ranks - 1), experts_, machine_, algorithms_)
          .seconds;
    };
  }
  // Layers have the same units, so few times are computed.
  struct Known {
    const schedule::Operations* operations;
    config::Recompute recompute;
    BlockProducts products;
    UnitTime time;
  };
  std::vector<Known> known;
  const auto time_of = [&](const schedule::Operations& operations, config::Recompute recompute) -> const UnitTime& {
    for (const Known& one : known) {
      if (one.recompute == recompute && one.products == rank.products && *one.operations == operations) return one.time;
    }
    known.push_back({&operations, recompute, rank.products, unit_time(operations, recompute, rank)});
    return known.back().time;
  };
  for (int64_t number = 0; number <= run_.partition().last(); ++number) {
    const schedule::Segment& segment = run_.partition().segment(number);
    // Units that belong to no layer are computed in the run's type.
    rank.products = segment.layer < 0 ? BlockProducts::as_run : block_products_;
    const config::Recompute recompute = run_.recompute_of(number);
    SegmentTime sum;
    for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
      const UnitTime& time = time_of(run_.table()[static_cast<size_t>(unit)].operations, recompute);
      sum.time.forward += time.forward;
      sum.time.input_gradient += time.input_gradient;
      sum.time.weight_gradient += time.weight_gradient;
    }
    segments_.push_back(sum);
  }
  add_pauses();
  add_gradient_copies();
  for (SegmentTime& sum : segments_) {
    sum.forward = sum.time.forward.total();
    sum.input_gradient = sum.time.input_gradient.total();
    sum.weight_gradient = sum.time.weight_gradient.total();
    sum.backward = sum.input_gradient + sum.weight_gradient;
  }
}

// Each forward and backward of a chunk begins with the program's pause.
void PredictedCosts::add_pauses() {
  for (const schedule::StageSegments& stage : run_.stages) {
    for (const std::vector<int64_t>& chunk : stage.chunks) {
      UnitTime &first = segments_[static_cast<size_t>(chunk.front())].time,
               &last = segments_[static_cast<size_t>(chunk.back())].time;
      first.forward.of(TimeKind::launches) += software_.pause_seconds;
      last.input_gradient.of(TimeKind::launches) += software_.pause_seconds;
    }
  }
}

// A backward reads its gradients of 16 bits, and reads and writes their sums in fp32.
void PredictedCosts::add_gradient_copies() {
  const auto gradient = static_cast<double>(config::element_bytes(run_.config.train.gradient_type));
  if (!software_.copies_gradients || gradient >= 4) return;
  for (size_t number = 0; number < segments_.size(); ++number) {
    const auto elements = static_cast<double>(run_.padded_elements(static_cast<int64_t>(number)));
    segments_[number].time.weight_gradient.of(TimeKind::elements) +=
        (gradient + 8) * elements / machine_.device.memory_bandwidth;
  }
}

// The most bytes that a unit hands to the next one.
int64_t PredictedCosts::largest_output() const {
  int64_t bytes = 0;
  for (const schedule::UnitRow& row : run_.table()) bytes = std::max(bytes, row.output_bytes);
  return bytes;
}

void PredictedCosts::time_sends() {
  const auto stages = static_cast<size_t>(run_.placement.stages);
  const std::vector<int64_t> ranks = run_.mesh.group(0, "pipeline").ranks;
  const auto whole = static_cast<double>(largest_output());
  const double bytes = software_.sends_parts ? whole / static_cast<double>(tensor_.ranks) : whole;
  const double gather = software_.sends_parts
                            ? collective_time(CollectiveKind::all_gather, whole, tensor_, machine_, algorithms_).seconds
                            : 0;
  sends_.assign(stages, std::vector<MovementTime>(stages));
  for (const auto& [from, to] : schedule::stage_directions(run_.placement)) {
    const auto sender = static_cast<size_t>(from), receiver = static_cast<size_t>(to);
    const mesh::Group pair{.name = "", .ranks = {ranks[sender], ranks[receiver]}};
    const CollectiveTime time =
        collective_time(CollectiveKind::send, bytes, place_of(pair, machine_, run_.mesh.size()), machine_, algorithms_);
    const double least = software_.send_bandwidth > 0 ? bytes / software_.send_bandwidth : 0;
    sends_[sender][receiver] = {std::max(time.seconds, least) + gather, time.tier, bytes};
  }
  if (software_.sends_while_computing) return;
  for (int64_t stage = 0; stage < run_.placement.stages; ++stage) {
    for (int64_t chunk = 0; chunk < run_.placement.chunks; ++chunk) {
      const int64_t own = run_.placement.virtual_stage(stage, chunk);
      const std::vector<int64_t>& segments = run_.chunk(stage, chunk);
      const auto waits = [&](int64_t neighbour) {
        if (neighbour < 0 || neighbour >= run_.placement.virtual_stages()) return 0.0;
        return sends_[static_cast<size_t>(stage)][static_cast<size_t>(run_.placement.stage_of(neighbour))].seconds;
      };
      segments_[static_cast<size_t>(segments.back())].forward += waits(own + 1);
      SegmentTime& first = segments_[static_cast<size_t>(segments.front())];
      first.backward += waits(own - 1);
      first.input_gradient += waits(own - 1);
    }
  }
}

// The norm, the update, and the sum of parameters that two stages share.
void PredictedCosts::time_stages() {
  const config::TrainConfig& train = run_.config.train;
  const std::vector<int64_t> ranks = run_.mesh.group(0, "pipeline").ranks;
  const auto weight = static_cast<double>(config::element_bytes(train.precision));
  const auto gradient = static_cast<double>(config::element_bytes(train.gradient_type));
  // The update reads the gradient, two moments and the weight or its fp32 master, and writes all but the gradient; with
  // a master it writes the weight too.
  const double element = train.precision == config::Precision::fp32 ? gradient + 24 : gradient + 24 + weight;
  for (int64_t stage = 0; stage < run_.placement.stages; ++stage) {
    const auto updated = [&](const auto& counts) {
      return run_.stage_sum(stage, &mesh::ShardSizes::optimizer,
                            [&](const PlannedFlat& flat) { return counts(flat) ? flat.elements : 0; });
    };
    const double elements = updated([](const PlannedFlat&) { return true; });
    norm_.push_back(gradient * elements / machine_.device.memory_bandwidth);
    // An fp32 weight is its own master.
    const double without_copies =
        run_.has_two_types()
            ? weight * updated([](const PlannedFlat& flat) { return flat.precision == config::Precision::fp32; })
            : 0;
    update_.push_back(software_.optimizer_passes * (element * elements - without_copies) /
                          machine_.device.memory_bandwidth +
                      software_.pause_between_steps_seconds);
    double shared = 0;
    for (const int64_t copy : run_.stages[static_cast<size_t>(stage)].copies) {
      const mesh::Group pair{.name = "", .ranks = {ranks.front(), ranks.back()}};
      const double bytes =
          gradient * static_cast<double>(run_.padded_elements(copy)) / static_cast<double>(run_.sizes.gradients);
      shared += collective_time(CollectiveKind::all_reduce, bytes, place_of(pair, machine_, run_.mesh.size()), machine_,
                                algorithms_)
                    .seconds;
    }
    finish_.push_back(shared);
  }
}

int64_t PredictedCosts::num_links() const { return std::max<int64_t>(1, static_cast<int64_t>(machine_.tiers.size())); }

MovementTime PredictedCosts::send(int64_t stage, const StepInstruction& instruction) const {
  return sends_[static_cast<size_t>(stage)][static_cast<size_t>(instruction.peer)];
}

int64_t PredictedCosts::link(int64_t stage, const StepInstruction& instruction) const {
  return schedule::is_send(instruction.kind) ? send(stage, instruction).tier : movement(instruction).tier;
}

double PredictedCosts::bytes(int64_t stage, const StepInstruction& instruction) const {
  return schedule::is_send(instruction.kind) ? send(stage, instruction).bytes : movement(instruction).bytes;
}

int64_t PredictedCosts::tensor_tier() const {
  return collective_time(CollectiveKind::all_reduce, 1, tensor_, machine_, algorithms_).tier;
}

double PredictedCosts::unit_bytes(
    int64_t stage, const std::function<double(const schedule::Operations&, config::Recompute)>& bytes) const {
  double sum = 0;
  for (const std::vector<int64_t>& chunk : run_.stages[static_cast<size_t>(stage)].chunks) {
    for (const int64_t number : chunk) {
      const schedule::Segment& segment = run_.partition().segment(number);
      for (int64_t unit = segment.units.begin; unit < segment.units.end; ++unit) {
        sum += bytes(run_.table()[static_cast<size_t>(unit)].operations, run_.recompute_of(number));
      }
    }
  }
  return sum * static_cast<double>(run_.pipeline.micro_batches);
}

double PredictedCosts::tensor_bytes(int64_t stage) const {
  return unit_bytes(stage, [&](const schedule::Operations& operations, config::Recompute recompute) {
    double sum = 0;
    const auto add = [&](const std::vector<schedule::TensorCollective>& collectives, double times) {
      for (const schedule::TensorCollective& one : collectives) {
        sum += times * sent_bytes(collective_of(one.kind), one.bytes, tensor_.ranks);
      }
    };
    add(operations.forward_collectives, recompute == config::Recompute::full ? 2 : 1);
    add(operations.backward_collectives, 1);
    return sum;
  });
}

double PredictedCosts::context_bytes(int64_t stage) const {
  return unit_bytes(stage, [](const schedule::Operations& operations, config::Recompute recompute) {
    double sum = 0;
    for (const schedule::ContextTransfer& one : operations.forward_transfers) {
      sum += (recompute == config::Recompute::none ? 1 : 2) * one.bytes;  // selective recompute repeats attention
    }
    for (const schedule::ContextTransfer& one : operations.backward_transfers) sum += one.bytes;
    return sum;
  });
}

double PredictedCosts::expert_bytes(int64_t stage) const {
  return unit_bytes(stage, [](const schedule::Operations& operations, config::Recompute recompute) {
    double sum = 0;
    for (const schedule::ExpertExchange& one : operations.forward_exchanges) {
      sum += (recompute == config::Recompute::full ? 2 : 1) * one.bytes;
    }
    for (const schedule::ExpertExchange& one : operations.backward_exchanges) sum += one.bytes;
    return sum;
  });
}

int64_t PredictedCosts::expert_tier() const {
  return collective_time(CollectiveKind::all_to_all, 1, experts_, machine_, algorithms_).tier;
}

int64_t PredictedCosts::context_tier() const {
  return collective_time(CollectiveKind::all_gather, 1, context_, machine_, algorithms_).tier;
}

// A call of the context ranks in which each of them sends so many bytes. A rank passes keys on to its neighbour as in
// one step of a gather by a ring.
double PredictedCosts::transfer_seconds(schedule::ContextTransfer::Kind kind, double bytes) const {
  using Kind = schedule::ContextTransfer::Kind;
  const auto others = static_cast<double>(context_.ranks - 1), ranks = static_cast<double>(context_.ranks);
  switch (kind) {
    case Kind::shift:
      return collective_time(CollectiveKind::all_gather, bytes * ranks, context_, machine_, {Algorithm::ring}).seconds /
             others;
    case Kind::all_gather:
      return collective_time(CollectiveKind::all_gather, bytes * ranks / others, context_, machine_, algorithms_)
          .seconds;
    case Kind::reduce_scatter:
      return collective_time(CollectiveKind::reduce_scatter, bytes * ranks / others, context_, machine_, algorithms_)
          .seconds;
    case Kind::exchange:
      return collective_time(CollectiveKind::all_to_all, bytes * ranks / others, context_, machine_, algorithms_)
          .seconds;
  }
  return 0;
}

double PredictedCosts::seconds(int64_t stage, const StepInstruction& instruction) const {
  switch (instruction.kind) {
    case Kind::forward:
      return segments_[static_cast<size_t>(instruction.segment)].forward;
    case Kind::loss:
      return segments_[static_cast<size_t>(instruction.segment)].forward +
             segments_[static_cast<size_t>(instruction.segment)].backward;
    case Kind::backward:
      return segments_[static_cast<size_t>(instruction.segment)].backward;
    case Kind::input_gradient:
      return segments_[static_cast<size_t>(instruction.segment)].input_gradient;
    case Kind::weight_gradient:
      return segments_[static_cast<size_t>(instruction.segment)].weight_gradient;
    case Kind::send_activation:
    case Kind::send_gradient:
      // Otherwise it is a part of the computation's time.
      return software_.sends_while_computing ? send_seconds(stage, instruction) : 0;
    case Kind::begin_movement:
      return movement(instruction).seconds;
    case Kind::end_movement: {
      // The sums of a further micro-batch are added to those of the earlier ones.
      const bool adds = instruction.accumulates && schedule::is_last_hop(instruction);
      return movement(instruction).coding + (adds ? adding_seconds(instruction) : 0);
    }
    case Kind::norm:
      return norm_[static_cast<size_t>(stage)];
    case Kind::finish_gradients:
      return finish_[static_cast<size_t>(stage)];
    case Kind::update:
      return update_[static_cast<size_t>(stage)];
    default:
      return 0;
  }
}

double PredictedCosts::evaluation_seconds(int64_t stage, const StepInstruction& instruction) const {
  const bool is_loss = instruction.kind == Kind::loss;
  return is_loss ? segments_[static_cast<size_t>(instruction.segment)].forward : seconds(stage, instruction);
}

double PredictedCosts::computing_seconds(const StepInstruction& instruction) const {
  const auto time = [&]() -> const UnitTime& { return segments_[static_cast<size_t>(instruction.segment)].time; };
  switch (instruction.kind) {
    case Kind::forward:
      return time().forward.computing();
    case Kind::loss:
      return time().forward.computing() + time().input_gradient.computing() + time().weight_gradient.computing();
    case Kind::backward:
      return time().input_gradient.computing() + time().weight_gradient.computing();
    case Kind::input_gradient:
      return time().input_gradient.computing();
    case Kind::weight_gradient:
      return time().weight_gradient.computing();
    default:
      return 0;
  }
}

double PredictedCosts::chunk_seconds(int64_t stage, int64_t chunk, bool with_backward) const {
  double sum = 0;
  for (const int64_t number : run_.chunk(stage, chunk)) {
    const SegmentTime& segment = segments_[static_cast<size_t>(number)];
    sum += segment.forward + (with_backward ? segment.backward : 0);
  }
  return sum;
}

PassTime PredictedCosts::computation(int64_t stage) const {
  PassTime sum;
  for (const std::vector<int64_t>& chunk : run_.stages[static_cast<size_t>(stage)].chunks) {
    for (const int64_t number : chunk) {
      const UnitTime& time = segments_[static_cast<size_t>(number)].time;
      sum += time.forward;
      sum += time.input_gradient;
      sum += time.weight_gradient;
    }
  }
  return sum *= static_cast<double>(run_.pipeline.micro_batches);
}

}  // namespace terrace::plan
