// The cores of this process, compared with other sources of the same facts.
#include "terrace/base/system/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/scratch_folder.h"

namespace terrace {
namespace {

// Runs the function in a thread that may use only these cores.
template <typename Action>
void bound_to(const CoreMask& cores, Action&& action) {
  std::thread([&] {
    ASSERT_TRUE(bind_to(cores));
    action();
  }).join();
}

TEST(Cores, CoresNearADeviceAsListedByTheKernel) {
  const ScratchFolder system;
  const auto list = [&](const std::string& device, const std::string& text) {
    const auto folder = system.path() / "sys/bus/pci/devices" / device;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "local_cpulist") << text;
  };
  list("0000:c1:00.0", "1-2,65,67-68\n");
  list("0000:c6:00.0", "\n");
  list("0000:d1:00.0", "5\n");
  const auto near = [&](const std::string& device) { return cores_near(device, system.path()); };
  CoreMask expected;
  for (const size_t core : {1, 2, 65, 67, 68}) expected[core] = true;
  EXPECT_EQ(near("0000:c1:00.0"), expected);
  EXPECT_EQ(near("0000:c6:00.0"), CoreMask());
  EXPECT_EQ(near("0000:d1:00.0"), CoreMask(1U << 5));
  EXPECT_EQ(near("0000:ff:00.0"), CoreMask());
}

TEST(Cores, AThreadIsBoundToThoseOfAMask) {
  CoreMask one;
  one[core_mask()._Find_first()] = true;
  std::thread([&] {
    ASSERT_TRUE(bind_to(one));
    EXPECT_EQ(core_mask(), one);
    EXPECT_FALSE(bind_to(CoreMask()));
  }).join();
}

TEST(Cores, UsableCoresFollowTheAffinityMask) {
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
