// The compute order of each schedule in closed form.
#include "terrace/schedule/compute_order.h"

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

// Number k of a stage's forwards: micro-batches go in groups of as many as there are stages, and a group goes through
// all chunks before the next.
Instruction interleaved_forward(const Pipeline& pipeline, int64_t k) {
  const int64_t group = pipeline.stages * pipeline.chunks;
  return {Kind::forward, k / group * pipeline.stages + k % pipeline.stages, k % group / pipeline.stages};
}

// 1F1B and interleaved 1F1B: some forwards first, then one forward and one backward in turn, then the other backwards.
// Where the stages do not divide the micro-batches, it is the order for the next number that they divide, without the
// micro-batches that there are not: what remains of an order without deadlock has none.
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

// 1F1B whose weight gradients trail the input gradients by as many micro-batches as there are stages before this one,
// which also have so many fewer forwards ahead here: together at most `stages` micro-batches are alive.
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

// ZB-V's order, built by asking for computations of the next micro-batch; one that is not possible yet, or any more,
// because of this stage's own order, is left out.
class VeeOrder {
 public:
  VeeOrder(const Pipeline& pipeline, int64_t stage)
      : stages_(pipeline.stages), micro_batches_(pipeline.micro_batches), stage_(stage) {}

  Instructions list() {
    // The micro-batches that can enter before the first comes back from below.
    for (int64_t i = 0; i < 2 * (stages_ - stage_) - 1; ++i) forward(0);
    for (int64_t i = 0; i < stage_; ++i) {
      forward(1);
      forward(0);
    }
    // From here the memory is full: what comes in waits for what goes out.
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

  // No forwards are left. Input gradients are what other stages wait for; weight gradients fill the time between.
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
  // Every stage behind this one costs a forward there and a backward back; with one chunk a stage, whose forwards and
  // backwards meet at the last stage, only the forward.
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
