// The cores of this process, compared with other sources of the same facts.
#include "terrace/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace terrace {
namespace {

// Runs the function in a thread that may use only these cores.
template <typename Action>
void bound_to(const CoreMask& cores, Action&& action) {
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t core = 0; core < cores.size(); ++core) {
      if (cores[core]) CPU_SET(core, &set);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    action();
  }).join();
}

TEST(Cores, AreThoseOfTheAffinityMask) {
  const CoreMask all = core_mask();
  ASSERT_GE(all.count(), 1U);
  EXPECT_LE(usable_cores(), static_cast<int64_t>(all.count()));
  CoreMask one;
  one[all._Find_first()] = true;
  bound_to(one, [&] {
    EXPECT_EQ(core_mask(), one);
    EXPECT_EQ(usable_cores(), 1);
    EXPECT_EQ(core_mask_unbound() & all, all);
    EXPECT_EQ(core_mask(), one);  // still
  });
}

}  // namespace
}  // namespace terrace
