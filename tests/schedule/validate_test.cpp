// Checks that the validator finds and names every kind of error in the lists.
#include "terrace/schedule/pipeline/validate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/schedule/lists.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;
using Kind = Instruction::Kind;

constexpr auto forward = Kind::forward;
constexpr auto backward = Kind::backward;
constexpr Instruction step{Kind::optimizer_step};

std::string validate_one(const Instructions& list, int64_t micro_batches, const Live& bound) {
  return validate({list}, {1, 1}, micro_batches, {bound});
}

TEST(Validator, AcceptsAllForwardsFirstWhereTheBoundAllowsIt) {
  const Instructions list = {{forward, 0},  {forward, 1},  {forward, 2}, {backward, 0},
                             {backward, 1}, {backward, 2}, step};
  EXPECT_EQ(validate_one(list, 3, {3, 0, 3}), "");
  EXPECT_EQ(validate_one(list, 3, {2, 0, 2}), "stage 0, instruction 2, F2: 3 activations are alive, at most 2 may be");
  EXPECT_EQ(validate_one(list, 3, {3, 0, 2}),
            "stage 0, instruction 2, F2: 3 activations and inputs of weight gradients are alive, at most 2 may be");
}

struct BrokenList {
  const char* what;
  Instructions list;
  const char* problem;
};

TEST(Validator, NamesWhatIsWrongOnOneStage) {
  const auto input = Kind::input_gradient, weight = Kind::weight_gradient;
  const std::vector<BrokenList> broken = {
      {"empty", {}, "stage 0: the optimizer step is missing"},
      {"no step", {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}}, "stage 0: the optimizer step is missing"},
      {"missing forward",
       {{forward, 0}, {backward, 0}, {backward, 1}, step},
       "stage 0, instruction 2, B1: F1 has not been done"},
      {"missing forward and backward",
       {{forward, 0}, {backward, 0}, step},
       "stage 0, instruction 2, step: F1 has not been done"},
      {"missing backward",
       {{forward, 0}, {backward, 0}, {forward, 1}, step},
       "stage 0, instruction 3, step: B1 has not been done"},
      {"backward before forward", {{backward, 0}, {forward, 0}}, "stage 0, instruction 0, B0: F0 has not been done"},
      {"forward twice",
       {{forward, 0}, {backward, 0}, {forward, 0}},
       "stage 0, instruction 2, F0: it has been done already"},
      {"backward twice",
       {{forward, 0}, {backward, 0}, {backward, 0}},
       "stage 0, instruction 2, B0: it has been done already"},
      {"forwards out of order", {{forward, 1}}, "stage 0, instruction 0, F1: out of order: F0 has not been done"},
      {"backwards out of order",
       {{forward, 0}, {forward, 1}, {backward, 1}},
       "stage 0, instruction 2, B1: out of order: B0 has not been done"},
      {"weight gradient before input gradient",
       {{forward, 0}, {weight, 0}},
       "stage 0, instruction 1, W0: I0 has not been done"},
      {"missing weight gradient",
       {{forward, 0}, {input, 0}, {forward, 1}, {backward, 1}, step},
       "stage 0, instruction 3, B1: out of order: W0 has not been done"},
      {"missing weight gradient at the end",
       {{forward, 0}, {backward, 0}, {forward, 1}, {input, 1}, step},
       "stage 0, instruction 4, step: W1 has not been done"},
      {"weight gradients out of order",
       {{forward, 0}, {input, 0}, {forward, 1}, {input, 1}, {weight, 1}},
       "stage 0, instruction 4, W1: out of order: W0 has not been done"},
      {"backward and weight gradient",
       {{forward, 0}, {backward, 0}, {weight, 0}},
       "stage 0, instruction 2, W0: it has been done already"},
      {"unknown micro-batch",
       {{forward, 0}, {backward, 0}, {forward, 2}},
       "stage 0, instruction 2, F2: there are 2 micro-batches"},
      {"negative micro-batch", {{backward, -1}}, "stage 0, instruction 0, B-1: there are 2 micro-batches"},
      {"unknown chunk", {{forward, 0, 1}}, "stage 0, instruction 0, F0.1: there are 1 chunks a stage"},
      {"forward with a peer",
       {{forward, 0, 0, 0}},
       "stage 0, instruction 0, F0: it is not a transfer, but names stage 0"},
      {"send to nobody",
       {{forward, 0}, {Kind::send_activation, 0, 0, 1}},
       "stage 0, instruction 1, send activation 0 to 1: no other stage takes the tensor"},
      {"receive from nobody",
       {{Kind::receive_activation, 0, 0, 1}},
       "stage 0, instruction 0, receive activation 0 from 1: no other stage makes the tensor"},
      {"two steps",
       {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, step, step},
       "stage 0, instruction 5, step: it comes after the optimizer step"},
      {"step too early",
       {{forward, 0}, {backward, 0}, step, {forward, 1}, {backward, 1}},
       "stage 0, instruction 2, step: F1 has not been done"},
      {"work after the step",
       {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, step, {forward, 0}},
       "stage 0, instruction 5, F0: it comes after the optimizer step"},
      {"step of a micro-batch",
       {{forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, {Kind::optimizer_step, 1}},
       "stage 0, instruction 4, step: the optimizer step has no micro-batch, chunk or peer"},
  };
  for (const BrokenList& one : broken) EXPECT_EQ(validate_one(one.list, 2, {2, 2, 2}), one.problem) << one.what;
}

// The lists of a pipeline, in which a test introduces one error.
struct Lists {
  explicit Lists(const Pipeline& pipeline)
      : pipeline(pipeline), lists(instructions(pipeline)), bounds(live_bounds(pipeline)) {}

  std::string problem() const { return validate(lists, placement(pipeline), pipeline.micro_batches, bounds); }

  size_t find(size_t stage, const std::string& name) const {
    const auto named = [&](const Instruction& one) { return to_string(one) == name; };
    const auto found = std::find_if(lists[stage].begin(), lists[stage].end(), named);
    TERRACE_CHECK(found != lists[stage].end(), "stage {} has no {}", stage, name);
    return static_cast<size_t>(found - lists[stage].begin());
  }
  Instruction drop(size_t stage, size_t index) {
    const Instruction dropped = lists[stage][index];
    lists[stage].erase(lists[stage].begin() + static_cast<ptrdiff_t>(index));
    return dropped;
  }
  void insert(size_t stage, size_t index, const Instruction& instruction) {
    lists[stage].insert(lists[stage].begin() + static_cast<ptrdiff_t>(index), instruction);
  }

  Pipeline pipeline;
  std::vector<Instructions> lists;
  std::vector<Live> bounds;
};

const Pipeline two_stages{PipelineSchedule::one_f_one_b, 2, 3, 1};

// Three forwards, backwards, sends and receives without one send: the step has index 11.
TEST(Validator, FindsADroppedSend) {
  Lists spoiled(two_stages);
  spoiled.drop(0, spoiled.find(0, "send activation 1 to 1"));
  EXPECT_EQ(spoiled.problem(), "stage 0, instruction 11, step: send activation 1 to 1 has not been done");
}

TEST(Validator, FindsADroppedReceive) {
  Lists spoiled(two_stages);
  spoiled.drop(1, spoiled.find(1, "receive activation 1 from 0"));
  EXPECT_NE(spoiled.problem().find("F1: its tensor has not been received"), std::string::npos) << spoiled.problem();
}

TEST(Validator, FindsASendBeforeItsComputation) {
  Lists spoiled(two_stages);
  spoiled.insert(0, 0, spoiled.drop(0, spoiled.find(0, "send activation 0 to 1")));
  EXPECT_EQ(spoiled.problem(), "stage 0, instruction 0, send activation 0 to 1: the tensor has not been made");
}

TEST(Validator, FindsTheWrongPeer) {
  Lists spoiled({PipelineSchedule::one_f_one_b, 3, 3, 1});
  spoiled.lists[0][spoiled.find(0, "send activation 0 to 1")].peer = 2;
  EXPECT_EQ(spoiled.problem(), "stage 0, instruction 1, send activation 0 to 2: stage 1 takes the tensor");
}

TEST(Validator, FindsExchangedReceives) {
  Lists spoiled(two_stages);
  const size_t first = spoiled.find(1, "receive activation 0 from 0"), second = first + 1;
  ASSERT_EQ(to_string(spoiled.lists[1][second]), "receive activation 1 from 0");
  spoiled.insert(1, first, spoiled.drop(1, second));
  EXPECT_EQ(
      spoiled.problem(),
      "stage 1, instruction 0, receive activation 1 from 0: the send at its position is stage 0, instruction 1, send "
      "activation 0 to 1");
}

// Stage 0 waits for a gradient before it sends the activation that the gradient depends on. Each stage alone is valid.
TEST(Validator, FindsADeadlock) {
  Lists spoiled(two_stages);
  const Instruction sent = spoiled.drop(0, spoiled.find(0, "send activation 0 to 1"));
  const Instruction also_sent = spoiled.drop(0, spoiled.find(0, "send activation 1 to 1"));
  const size_t after = spoiled.find(0, "B0") + 1;
  spoiled.insert(0, after, also_sent);
  spoiled.insert(0, after, sent);
  EXPECT_EQ(spoiled.problem(),
            fmt::format("deadlock where sends do not wait: stage 0, instruction {}, B0; stage 1, instruction {}, F0",
                        spoiled.find(0, "B0"), spoiled.find(1, "F0")));
}

// Each receive directly before its computation: both stages wait in a send for a receive that follows the other stage's
// send.
TEST(Validator, FindsADeadlockOfSendsThatWait) {
  Lists spoiled(two_stages);
  const auto post_late = [&](size_t stage, const std::string& receive, const std::string& computation) {
    const Instruction posted = spoiled.drop(stage, spoiled.find(stage, receive));
    spoiled.insert(stage, spoiled.find(stage, computation), posted);
  };
  for (const char* number : {"0", "1", "2"}) {
    post_late(0, fmt::format("receive gradient {} from 1", number), fmt::format("B{}", number));
    post_late(1, fmt::format("receive activation {} from 0", number), fmt::format("F{}", number));
  }
  const std::string problem = spoiled.problem();
  EXPECT_EQ(problem.substr(0, 41), "deadlock where sends wait for their recei") << problem;
  EXPECT_NE(problem.find("send activation 1 to 1"), std::string::npos) << problem;
  EXPECT_NE(problem.find("send gradient 0 to 0"), std::string::npos) << problem;
}

// With one queue for each direction a message waits behind a receive from another stage.
TEST(Validator, FindsADeadlockWhereDirectionsShareAQueue) {
  const Lists interleaved({PipelineSchedule::interleaved, 3, 4, 2});
  ASSERT_EQ(interleaved.problem(), "");
  const auto deadlock = [&](const QueueOf& queue_of) {
    const Pipeline& pipeline = interleaved.pipeline;
    return find_deadlock(interleaved.lists, placement(pipeline), pipeline.micro_batches, queue_of);
  };
  const std::string problem = deadlock([](int64_t stage, const Instruction& transfer) {
    const bool to_higher_stages = is_send(transfer.kind) == (transfer.peer > stage);
    return to_higher_stages ? 1 : 0;
  });
  EXPECT_TRUE(problem.starts_with("deadlock where sends and receives of a queue move in order: stage 0")) << problem;
  EXPECT_EQ(deadlock([](int64_t, const Instruction& transfer) {
              return 2 * transfer.peer + (is_send(transfer.kind) ? 1 : 0);
            }),
            "");
}

TEST(Validator, FindsWhatExceedsItsBound) {
  for (const Pipeline& pipeline :
       {two_stages, Pipeline{PipelineSchedule::zb_h1, 3, 5, 1}, Pipeline{PipelineSchedule::zb_v, 3, 5, 2}}) {
    for (size_t stage = 0; stage < static_cast<size_t>(pipeline.stages); ++stage) {
      for (int64_t Live::*const limit : {&Live::activations, &Live::weight_inputs, &Live::together}) {
        Lists tight(pipeline);
        if (tight.bounds[stage].*limit == 0) continue;
        --(tight.bounds[stage].*limit);
        EXPECT_NE(tight.problem().find("are alive, at most"), std::string::npos) << text(pipeline);
      }
    }
  }
}

TEST(Validator, WantsAListAndABoundForEachStage) {
  Lists spoiled(two_stages);
  spoiled.lists.pop_back();
  EXPECT_EQ(spoiled.problem(), "1 lists and 2 bounds for 2 stages");
}

// Lists in which any single instruction is missing or repeated are invalid.
TEST(Validator, CatchesEverySingleChange) {
  for (const Pipeline& pipeline :
       {Pipeline{PipelineSchedule::one_f_one_b, 1, 4, 1}, Pipeline{PipelineSchedule::gpipe, 3, 4, 1},
        Pipeline{PipelineSchedule::one_f_one_b, 3, 4, 1}, Pipeline{PipelineSchedule::interleaved, 2, 4, 2},
        Pipeline{PipelineSchedule::zb_h1, 3, 4, 1}, Pipeline{PipelineSchedule::zb_v, 2, 4, 2}}) {
    const Lists good(pipeline);
    ASSERT_EQ(good.problem(), "");
    for (size_t stage = 0; stage < good.lists.size(); ++stage) {
      for (size_t i = 0; i < good.lists[stage].size(); ++i) {
        SCOPED_TRACE(text(pipeline) + ": " + to_string(good.lists[stage][i]));
        Lists dropped = good, doubled = good;
        dropped.drop(stage, i);
        doubled.insert(stage, i, good.lists[stage][i]);
        EXPECT_NE(dropped.problem(), "");
        EXPECT_NE(doubled.problem(), "");
      }
    }
  }
}

}  // namespace
}  // namespace terrace::schedule
