// Finds bits that have changed in the memory of a rank: compares digests of weights, gradients and optimizer states
// among the ranks that hold the same, and with those that the rank itself had when nothing should have changed since.
//
// Dixit et al., "Silent data corruptions at scale", arXiv 2102.11245, and the Gemini report, arXiv 2312.11805, section
// 5, say how often this happens and why replicas are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/mesh/shards.h"
#include "terrace/models/model.h"
#include "terrace/optim/adamw.h"
#include "terrace/parallel/cut_model.h"

namespace terrace::train {

// "rank 3 (host a17, node 1; data 1, tensor 1, pipeline 0)", with the axes of more than one rank.
std::string place_text(const comm::World& world, const mesh::Mesh& mesh);

// The findings of all ranks, each behind its place_text(), as one text that is the same on all ranks; "" where no rank
// found anything. Of more than eight ranks the others are counted. Called by all ranks together; costs a sum of one
// number where nothing was found.
std::string findings_of_all(comm::Comm& control, const std::string& place, const std::string& own);

class StateCheck {
 public:
  // All arguments outlive the object.
  StateCheck(comm::World& world, models::Model& model, parallel::CutModel& cut, optim::AdamW& optimizer);

  // Called by all ranks when a step has ended, and before the first step of a start. Compares weights, buffers, masters
  // and moments, and remembers the digests of this rank. Returns findings_of_all().
  std::string after_update();

  // Whether after_update() was called in the step before.
  bool remembers() const { return remembers_; }
  // Called by all ranks in the step after after_update(): before it begins, and when its gradients are complete. The
  // latter compares summed gradients, gathered weights, weights that arrived since, and this rank's weights and
  // optimizer states with the remembered digests. Returns findings_of_all().
  void begin_step();
  std::string before_update();

 private:
  // The ranks among which something is compared: all data-parallel ranks, or those with the same part of weights or
  // optimizer states.
  enum class Held { whole, weight_part, optimizer_part };
  struct Watched {
    const char* what;  // "weights"
    std::string name;  // of the parameter, buffer or segment
    at::Tensor tensor;
    Held held = Held::whole;
    bool on_tensor_ranks = false;  // whether all tensor ranks hold the same
    bool on_two_stages = false;    // whether another stage holds the same
    uint64_t digest = 0;           // given for what has no tensor
  };
  // A selection of what is watched, of which members of a group with the same key hold the same.
  struct Circle {
    bool (*has)(const Watched&);
    std::vector<int64_t> keys;  // by member
  };
  struct GroupCircles {
    comm::Comm* group;
    std::vector<Circle> circles;
  };

  // Weights and optimizer states that nothing writes from the end of a step to the next update.
  std::vector<Watched> states() const;
  std::vector<Watched> whole_weights() const;
  std::vector<Watched> gradients() const;
  // Whether updated weights arrive from other ranks in the step after, so that only this rank's own are settled before.
  bool publishes() const { return cut_.groups.place.update.size() > 1; }
  void add_pieces(const char* what, const at::Tensor& tensor, const std::vector<optim::ShardPiece>& pieces,
                  int64_t segment, Held held, std::vector<Watched>& list) const;
  std::vector<GroupCircles> circles() const;
  static std::vector<uint64_t> digests_of(const std::vector<Watched>& list);
  void compare(const std::vector<Watched>& list, const std::vector<uint64_t>& digests,
               std::vector<std::string>& findings) const;
  void compare(comm::Comm& group, const Circle& circle, const std::vector<Watched>& list,
               const std::vector<uint64_t>& digests, std::vector<std::string>& findings) const;
  std::string own_evidence(const char* what) const;

  models::Model& model_;
  parallel::CutModel& cut_;
  optim::AdamW& optimizer_;
  std::string place_;
  bool remembers_ = false;            // also on a rank whose parts are padding, which has no digests
  std::vector<uint64_t> remembered_;  // of states()
};

}  // namespace terrace::train
