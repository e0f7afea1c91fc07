// The time of each movement of sharded data parallelism on a machine.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/machine/machine.h"
#include "terrace/mesh/mesh.h"
#include "terrace/mesh/shards.h"
#include "terrace/plan/time/collective.h"
#include "terrace/schedule/step/step.h"

namespace terrace::plan {

// The time of one call of a movement.
struct MovementTime {
  double seconds = 0;
  int64_t tier = 0;   // the tier whose links the call uses
  double bytes = 0;   // bytes that one rank sends
  double coding = 0;  // seconds of the rank for encoding, decoding and converting values
};

class MovementTimes {
 public:
  // All arguments outlive the object. Gathers between nodes by rails take `algorithms`, or Algorithm::bruck if the
  // configuration says so; RailsGather::automatic counts as library.
  // `experts` is the number of ranks that divide experts where the sizes are those of parameters of experts, or 0.
  MovementTimes(const config::Config& config, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes,
                const machine::Machine& machine, const std::vector<Algorithm>& algorithms, int64_t experts = 0);

  // A call of the movement on a flat buffer of so many elements, which are a whole number of pieces for each rank.
  MovementTime of(schedule::Movement movement, schedule::Hop hop, int64_t padded_elements) const;

 private:
  struct Places {
    GroupPlace whole, node, rails;
    int64_t ranks_in_node = 1;

    const GroupPlace& of(schedule::Hop hop) const;
    // The number of these elements that a call is about: between nodes a rank has its share of what its node has.
    int64_t moved(schedule::Hop hop, int64_t elements) const;
  };

  Places places_of(const std::vector<int64_t>& members, bool has_two_hops) const;
  MovementTime call(CollectiveKind collective, config::WireType type, int64_t elements, int64_t element_bytes,
                    const GroupPlace& group) const {
    return call(collective, type, elements, element_bytes, group, algorithms_);
  }
  MovementTime call(CollectiveKind collective, config::WireType type, int64_t elements, int64_t element_bytes,
                    const GroupPlace& group, const std::vector<Algorithm>& algorithms) const;
  // Seconds for so many fp32 values at a rate in bytes/s; 0: that of memory.
  double encoding(double values, double rate) const;
  // Seconds for so many values that are read in the one type and written in the other one.
  double converting(double values, config::WireType type, config::Precision kept) const;
  MovementTime gather(schedule::Movement movement, const Places& places, schedule::Hop hop, int64_t elements) const;
  MovementTime reduction(schedule::Movement movement, CollectiveKind collective, int64_t elements,
                         const GroupPlace& group, schedule::Hop hop) const;

  const config::Config& config_;
  const mesh::Mesh& mesh_;
  const mesh::ShardSizes& sizes_;
  const int64_t experts_;
  const machine::Machine& machine_;
  const std::vector<Algorithm>& algorithms_;
  std::vector<Algorithm> rails_gather_;  // of gathers between nodes by rails
  Places gather_, reduce_, across_, replicas_, update_;
};

}  // namespace terrace::plan
