// The conclusions of a supervisor from the end of the ranks, and the nodes that it chooses.
#include "terrace/supervise/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terrace::supervise {
namespace {

using testing::ElementsAre;

TEST(Verdict, IsTheCodeOfARunThatEndedByItself) {
  EXPECT_EQ(verdict({.code = 0, .has_begun = true, .has_finished = true}), ExitCode::done);
  EXPECT_EQ(verdict({.code = 4, .has_begun = true}), ExitCode::stopped);
  // A rank that fails after the last step changes nothing.
  EXPECT_EQ(verdict({.code = 137, .has_begun = true, .has_finished = true, .has_lost_node = true}), ExitCode::done);
  EXPECT_EQ(verdict({.code = 1, .has_begun = true, .has_failed = true}), ExitCode::failure);
  // Refused before it began.
  EXPECT_EQ(verdict({.code = 2}), ExitCode::bad_input);
  EXPECT_EQ(verdict({.code = 3}), ExitCode::infeasible);
}

TEST(Verdict, IsAnotherStartWhereRanksOrNodesFailed) {
  EXPECT_FALSE(verdict({.code = 5, .has_begun = true, .has_failed = true}));  // a rank told of another one's death
  EXPECT_FALSE(verdict({.code = 137, .has_begun = true}));
  // srun ends so where it loses ranks with their node.
  EXPECT_FALSE(verdict({.code = 0, .has_begun = true}));
  EXPECT_FALSE(verdict({.code = 1, .has_begun = true}));
  EXPECT_FALSE(verdict({.code = 1, .has_begun = true, .has_failed = true, .has_lost_node = true}));
  // A configuration that was accepted before is accepted.
  EXPECT_FALSE(verdict({.code = 2, .had_begun = true}));
  EXPECT_FALSE(verdict({.code = 2, .has_lost_node = true}));
}

TEST(ChosenNodes, KeepTheirPlacesAndAreReplacedBySpares) {
  EXPECT_THAT(chosen_nodes({"a", "b"}, {"a", "b", "c"}, 2), ElementsAre("a", "b"));
  EXPECT_THAT(chosen_nodes({"a", "b", "c"}, {"a", "c", "d", "e"}, 3), ElementsAre("a", "d", "c"));
  EXPECT_THAT(chosen_nodes({"a", "b", "c"}, {"d", "c", "e"}, 3), ElementsAre("d", "e", "c"));
  EXPECT_THAT(chosen_nodes({"a", "b", "c"}, {"a", "c"}, 2), ElementsAre("a", "c"));
  EXPECT_THAT(chosen_nodes({"a", "b", "c", "d"}, {"a", "c", "d"}, 2), ElementsAre("a", "c"));
}

TEST(Supervise, RefusesFewerNodesThanTheRunNeeds) {
  SupervisedRun run;
  run.job.request.nodes = 3;
  run.nodes = {"a", "b"};
  try {
    supervise(run);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the run needs 3 nodes, and 2 are given: a, b; name more of them, or give fewer to --nodes");
  }
}

}  // namespace
}  // namespace terrace::supervise
