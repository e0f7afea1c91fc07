// The Pareto front has exactly what is not beaten.
#include "terrace/search/proposals/pareto.h"

#include <gtest/gtest.h>

namespace terrace::search {
namespace {

TEST(ParetoFront, LeavesOutWhatIsBeaten) {
  EXPECT_EQ(pareto_front({{1, 5}, {2, 4}, {2, 3}, {}, {3, 1}, {3, 1}, {0, 5}}), (std::vector<size_t>{0, 1, 4, 5}));
  EXPECT_EQ(pareto_front({{1}, {3}, {2}}), std::vector<size_t>{1});
  EXPECT_EQ(pareto_front({}), std::vector<size_t>());
}

}  // namespace
}  // namespace terrace::search
