// The limits of control groups in trees of files as the kernel writes them.
#include "terrace/base/system/control_groups.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/scratch_folder.h"

namespace terrace {
namespace {

// A folder with these files under proc/ and sys/.
class System {
 public:
  explicit System(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) {
      std::filesystem::create_directories((folder_.path() / name).parent_path());
      std::ofstream(folder_.path() / name) << text;
    }
  }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

TEST(ControlGroups, Version2LimitsAlongThePath) {
  const System system({{"proc/self/cgroup", "0::/slurm/job_7\n"},
                       {"sys/fs/cgroup/memory.max", "max\n"},
                       {"sys/fs/cgroup/memory.current", "900\n"},
                       {"sys/fs/cgroup/slurm/memory.max", "8000\n"},
                       {"sys/fs/cgroup/slurm/memory.current", "3000\n"},
                       {"sys/fs/cgroup/slurm/memory.stat", "anon 2000\ninactive_file 600\n"},
                       {"sys/fs/cgroup/slurm/job_7/memory.max", "9000\n"},
                       {"sys/fs/cgroup/slurm/job_7/memory.current", "2500\n"},
                       {"sys/fs/cgroup/slurm/cpu.max", "300000 100000\n"},
                       {"sys/fs/cgroup/slurm/job_7/cpu.max", "max 100000\n"}});
  EXPECT_EQ(memory_under_limits(system.root()), 8000 - 3000 + 600);
  EXPECT_EQ(core_quota(system.root()), 3.0);
}

// Containers see their own group as the root, and a path that is not there.
TEST(ControlGroups, Version1LimitsAtTheRoot) {
  const System system({{"proc/self/cgroup", "5:cpu,cpuacct:/docker/4f\n4:memory:/docker/4f\n0::/\n"},
                       {"sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n"},
                       {"sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n"},
                       {"sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 250\n"},
                       {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"},
                       {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}});
  EXPECT_EQ(memory_under_limits(system.root()), 5000 - 4000 + 250);
  EXPECT_EQ(core_quota(system.root()), 1.5);
}

TEST(ControlGroups, NoLimit) {
  const System system({{"proc/self/cgroup", "4:memory:/job\n0::/\n"},
                       {"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"},
                       {"sys/fs/cgroup/memory/job/memory.usage_in_bytes", "4000\n"},
                       {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                       {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}});
  EXPECT_EQ(memory_under_limits(system.root()), std::nullopt);
  EXPECT_EQ(core_quota(system.root()), 0.0);
  EXPECT_EQ(memory_under_limits(system.root() / "nothing"), std::nullopt);
}

TEST(ControlGroups, FullGroupLeavesNoMemory) {
  const System system({{"proc/self/cgroup", "0::/\n"},
                       {"sys/fs/cgroup/memory.max", "1000\n"},
                       {"sys/fs/cgroup/memory.current", "1200\n"}});
  EXPECT_EQ(memory_under_limits(system.root()), 0);
}

}  // namespace
}  // namespace terrace
