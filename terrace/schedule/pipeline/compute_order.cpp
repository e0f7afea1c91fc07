// Generates the order of computations of each schedule.
#include "terrace/schedule/pipeline/compute_order.h"

#include <algorithm>
#include <array>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;
using config::PipelineSchedule;

Instructions gpipe(int64_t micro_batches) {
  Instructions list;
  for (int64_t i = 0; i < micro_batches; ++i) list.push_back({Kind::forward, i});
  for (int64_t i = 0; i < micro_batches; ++i) list.push_back({Kind::backward, i});
  return list;
}

// The k-th forward of a stage: micro-batches are grouped by the number of stages, and each group passes through all
// chunks before the next group begins.
Instruction interleaved_forward(const Pipeline& pipeline, int64_t k) {
  const int64_t group = pipeline.stages * pipeline.chunks;
  return {Kind::forward, k / group * pipeline.stages + k % pipeline.stages, k % group / pipeline.stages};
}

// 1F1B and interleaved 1F1B: `warmup` forwards, then alternately one forward and one backward, then the remaining
// backwards. If the number of micro-batches is no multiple of the stages, the order is that of the next multiple
// without the surplus micro-batches: removing whole micro-batches cannot cause a deadlock.
Instructions one_forward_one_backward(const Pipeline& pipeline, int64_t warmup) {
  const int64_t groups = (pipeline.micro_batches + pipeline.stages - 1) / pipeline.stages;
  const int64_t total = groups * pipeline.stages * pipeline.chunks;
  Instructions list;
  for (int64_t k = -warmup; k < total; ++k) {
    if (warmup + k < total) list.push_back(interleaved_forward(pipeline, warmup + k));
    if (k < 0) continue;
    const Instruction same_place = interleaved_forward(pipeline, k);
    list.push_back({Kind::backward, same_place.micro_batch, pipeline.chunks - 1 - same_place.chunk});
  }
  std::erase_if(list, [&](const Instruction& one) { return one.micro_batch >= pipeline.micro_batches; });
  return list;
}

// 1F1B in which stage s defers weight gradients by s micro-batches. Stage s also has s fewer forwards in its warmup
// than the first stage, so that at most `stages` micro-batches are alive on every stage.
Instructions zb_h1(const Pipeline& pipeline, int64_t stage) {
  const int64_t warmup = pipeline.stages - 1 - stage;
  Instructions list;
  for (int64_t i = 0; i < std::min(warmup, pipeline.micro_batches); ++i) list.push_back({Kind::forward, i});
  for (int64_t i = 0; i < pipeline.micro_batches; ++i) {
    if (warmup + i < pipeline.micro_batches) list.push_back({Kind::forward, warmup + i});
    list.push_back({Kind::input_gradient, i});
    if (i >= stage) list.push_back({Kind::weight_gradient, i - stage});
  }
  for (int64_t i = std::max<int64_t>(pipeline.micro_batches - stage, 0); i < pipeline.micro_batches; ++i) {
    list.push_back({Kind::weight_gradient, i});
  }
  return list;
}

// The order of ZB-V. Each step requests the computation of a chunk for its next micro-batch; a request is ignored if
// the computation must wait for another one of this stage or if no micro-batches remain.
class VeeOrder {
 public:
  VeeOrder(const Pipeline& pipeline, int64_t stage)
      : stages_(pipeline.stages), micro_batches_(pipeline.micro_batches), stage_(stage) {}

  Instructions list() {
    // The forwards of the first chunk before the first micro-batch reaches the second chunk.
    for (int64_t i = 0; i < 2 * (stages_ - stage_) - 1; ++i) forward(0);
    for (int64_t i = 0; i < stage_; ++i) {
      forward(1);
      forward(0);
    }
    // The memory bound is reached: from here on every forward is paired with a backward.
    for (int64_t i = 0; i < stages_ - stage_; ++i) forward_and_whole_backward(1, 1);
    while (done_[0].forward < micro_batches_ || done_[1].forward < micro_batches_) {
      forward_and_whole_backward(0, 0);
      forward_and_whole_backward(1, 1);
    }
    drain();
    return list_;
  }

 private:
  struct Done {
    int64_t forward = 0, input_gradient = 0, weight_gradient = 0;
  };

  bool add(Kind kind, int64_t chunk, int64_t& done, int64_t limit) {
    if (done >= limit) return false;
    list_.push_back({kind, done++, chunk});
    return true;
  }
  Done& done(int64_t chunk) { return done_.at(static_cast<size_t>(chunk)); }
  bool forward(int64_t chunk) { return add(Kind::forward, chunk, done(chunk).forward, micro_batches_); }
  bool input_gradient(int64_t chunk) {
    return add(Kind::input_gradient, chunk, done(chunk).input_gradient, done(chunk).forward);
  }
  bool weight_gradient(int64_t chunk) {
    return add(Kind::weight_gradient, chunk, done(chunk).weight_gradient, done(chunk).input_gradient);
  }

  void forward_and_whole_backward(int64_t forward_chunk, int64_t backward_chunk) {
    forward(forward_chunk);
    if (input_gradient(backward_chunk)) weight_gradient(backward_chunk);
  }

  // No forwards remain. Input gradients come first, since other stages wait for them; weight gradients fill idle time.
  void drain() {
    for (int64_t i = 0; i < stage_; ++i) {
      input_gradient(0);
      input_gradient(1);
    }
    for (int64_t i = 0; i < stages_ - stage_; ++i) {
      if (input_gradient(0)) weight_gradient(0);
    }
    while (input_gradient(0) || input_gradient(1) || weight_gradient(1) || weight_gradient(0)) {
    }
  }

  int64_t stages_, micro_batches_, stage_;
  std::array<Done, 2> done_ = {};  // by chunk
  Instructions list_;
};

}  // namespace

int64_t interleaved_warmup(const Pipeline& pipeline, int64_t stage) {
  const int64_t behind = pipeline.stages - 1 - stage;
  // Each later stage adds one forward and one backward to the time until the first gradient arrives. With one chunk per
  // stage forwards and backwards alternate on the last stage, and each later stage adds one forward only.
  return pipeline.chunks == 1 ? behind : 2 * behind + (pipeline.chunks - 1) * pipeline.stages;
}

Instructions compute_order(const Pipeline& pipeline, int64_t stage) {
  switch (pipeline.schedule) {
    case PipelineSchedule::gpipe:
      return gpipe(pipeline.micro_batches);
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::interleaved:
      return one_forward_one_backward(pipeline, interleaved_warmup(pipeline, stage));
    case PipelineSchedule::zb_h1:
      return zb_h1(pipeline, stage);
    case PipelineSchedule::zb_v:
      return VeeOrder(pipeline, stage).list();
  }
  TERRACE_CHECK(false, "schedule {}", static_cast<int>(pipeline.schedule));
  return {};
}

}  // namespace terrace::schedule
