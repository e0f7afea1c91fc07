// Counts what a rank of ten thousand does until its first step: the real trainer with a stand-in for the other ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "terrace/doctor/gather.h"
#include "terrace/nn/module.h"
#include "terrace/parallel/groups.h"
#include "terrace/run/start_facts.h"
#include "terrace/schedule/rank_share.h"
#include "terrace/train/agreement.h"
#include "tests/data/peak_memory.h"
#include "tests/doctor/faked_nodes.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

// Counts of what one rank does. Its connections cost what those of the MPI backend do (comm/mpi/mpi.cpp): each member
// sends a message to the first one, which answers all.
struct Counts {
  int64_t connections = 0, members = 0;  // groups, and the sum of their sizes
  int64_t messages = 0;                  // of connections, and one for each collective
  int64_t received_bytes = 0;            // apart from weights
  int64_t weight_bytes = 0;              // received
};

// Data that the first member broadcast: by the group's name, the number of its connection, and the call.
using Broadcasts = std::map<std::tuple<std::string, int64_t, int64_t>, std::string>;

// Every other member has the buffers of this one, and broadcasts what the first rank did.
class LoneComm : public comm::Comm {
 public:
  LoneComm(const mesh::Group& group, int64_t member, int64_t connection, Counts& counts, Broadcasts& broadcasts,
           int64_t elements)
      : Comm(group, member), connection_(connection), counts_(counts), broadcasts_(broadcasts), elements_(elements) {}

 private:
  comm::Work start(const comm::Call& call, comm::Owner /*owner*/) override {
    const auto bytes = static_cast<size_t>(call.count * comm::size_of(call.type));
    ++counts_.messages;
    if (call.kind == comm::Kind::all_gather) {
      const std::vector<char> own(static_cast<const char*>(call.from), static_cast<const char*>(call.from) + bytes);
      for (int64_t i = 0; i < size(); ++i)
        std::memcpy(static_cast<char*>(call.to) + i * std::ssize(own), own.data(), bytes);
      const bool of_weights = std::string(call.label.what).find("weights") != std::string::npos;
      (of_weights ? counts_.weight_bytes : counts_.received_bytes) += (size() - 1) * std::ssize(own);
    } else if (call.kind == comm::Kind::broadcast) {
      broadcast(call, bytes);
    } else {
      EXPECT_TRUE(call.kind == comm::Kind::barrier || call.kind == comm::Kind::all_reduce)
          << comm::name_of(call.kind) << " " << comm::to_string(call.label);
      counts_.received_bytes += static_cast<int64_t>(bytes);
      // The one sum whose result is checked.
      if (call.label.what == std::string("count elements")) std::memcpy(call.to, &elements_, sizeof elements_);
    }
    return {};
  }

  void broadcast(const comm::Call& call, size_t bytes) {
    std::string& sent = broadcasts_[{group().name, connection_, calls_++}];
    if (call.peer == member()) {
      sent.assign(static_cast<const char*>(call.to), bytes);
    } else {
      ASSERT_EQ(sent.size(), bytes) << "of group " << group().name;
      std::memcpy(call.to, sent.data(), bytes);
      counts_.received_bytes += static_cast<int64_t>(bytes);
    }
  }

  int64_t connection_, calls_ = 0;
  Counts& counts_;
  Broadcasts& broadcasts_;
  int64_t elements_;
};

class LoneWorld : public comm::World {
 public:
  // `elements`: of the whole model.
  LoneWorld(int64_t rank, int64_t size, Broadcasts& broadcasts, int64_t elements)
      : rank_(rank), size_(size), broadcasts_(broadcasts), elements_(elements) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t ranks_per_node() const override { return 8; }
  int64_t cores_per_rank() const override { return 1; }
  using World::connect;
  void use_gpu(int) override {}
  std::unique_ptr<comm::Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>&) override {
    const auto own = std::ranges::find(group.ranks, rank_);
    EXPECT_NE(own, group.ranks.end()) << group.name;
    const int64_t member = own - group.ranks.begin(), members = std::ssize(group.ranks);
    ++counts.connections;
    counts.members += members;
    if (members > 1) counts.messages += member == 0 ? 2 * (members - 1) : 2;
    return std::make_unique<LoneComm>(group, member, connections_[group.name]++, counts, broadcasts_, elements_);
  }
  void abort(const std::string& reason) override { ADD_FAILURE() << reason; }

  Counts counts;

 private:
  int64_t rank_, size_;
  Broadcasts& broadcasts_;
  int64_t elements_;
  std::map<std::string, int64_t> connections_;
};

class ManyRanks : public train::TinyRun {
 protected:
  struct Start {
    Counts counts;
    int64_t heap_bytes = 0;  // of the groups
  };

  // Held by all groups of the mesh.
  static int64_t bytes_of_groups(const config::Config& config, comm::World& world) {
    ::malloc_trim(0);
    const auto before = static_cast<int64_t>(::mallinfo2().uordblks);
    const mesh::Mesh mesh = schedule::mesh_of(config.layout, world.size(), world.ranks_per_node());
    const parallel::DataGroups groups =
        parallel::connect(world, mesh, mesh::shard_sizes(config.layout, mesh), comm::Gathering::library);
    return static_cast<int64_t>(::mallinfo2().uordblks) - before;
  }

  // The start of terrace train on one rank: the doctor (cli/training/node_check.cpp), and run_as_process()
  // (train/run.cpp) from the first agreement to the trainer.
  Start start(int64_t rank, int64_t ranks, const std::vector<std::string>& layout) {
    std::vector<std::string> keys = layout;
    keys.push_back("train.global_batch=" + std::to_string(2 * ranks));
    const config::Config config = tiny_config(keys);
    Broadcasts none;
    LoneWorld of_groups(rank, ranks, none, elements_);
    Start start{.counts = {}, .heap_bytes = bytes_of_groups(config, of_groups)};
    LoneWorld world(rank, ranks, broadcasts_, elements_);
    doctor::diagnose_by_node(world, world.ranks_per_node(), nodes_[static_cast<size_t>(rank % 8)].read(rank, "/run"));
    train::agree(world, std::nullopt);
    const auto all = world.connect(mesh::all_ranks("control", ranks));
    train::check_same(*all, program_facts(config));
    int64_t readings = 0;
    train::check_same_files(*all, world.ranks_per_node(), [&] { return ++readings, file_facts(config); });
    EXPECT_EQ(readings, rank % world.ranks_per_node() == 0 ? 1 : 0) << "rank " << rank << " of " << ranks;
    const train::Trainer trainer(config, {}, {}, &world);
    start.counts = world.counts;
    return start;
  }

  // Starts the first rank first, whose broadcasts the others receive.
  std::vector<Start> starts(int64_t ranks, const std::vector<std::string>& layout) {
    broadcasts_.clear();
    if (elements_ == 0) elements_ = nn::whole_elements(train::Trainer(tiny_config(), {}).model().parameters());
    std::vector<Start> all;
    for (const int64_t rank : {int64_t{0}, int64_t{1}, ranks / 2, ranks - 1}) all.push_back(start(rank, ranks, layout));
    return all;
  }

  doctor::FrontierJob nodes_;  // all nodes are like this one
  Broadcasts broadcasts_;
  int64_t elements_ = 0;
};

// Everything that all ranks gather or are members of is linear in their number: no rank's groups hold more than 4 MiB,
// and ten times the ranks cost each rank ten times the bytes and messages, and not a hundred times.
TEST_F(ManyRanks, AStartIsLinearInTheirNumber) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{},
        {"layout.sharding=\"zero3\""},
        {"layout.sharding=\"hybrid\"", "layout.shard_group=8"},
        {"layout.tensor=2", "layout.pipeline=2", "layout.sharding=\"zero1\""}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const std::vector<Start> few = starts(1000, layout), many = starts(10'000, layout);
    for (size_t i = 0; i < many.size(); ++i) {
      SCOPED_TRACE(i);
      const Counts &of_few = few[i].counts, &of_many = many[i].counts;
      EXPECT_LT(many[i].heap_bytes, int64_t{4} << 20);
      EXPECT_LE(of_many.connections, 18);  // two of them for the doctor
      EXPECT_EQ(of_many.connections, of_few.connections);
      EXPECT_LE(of_many.members, int64_t{8} * 10'000 + 100);  // of all ranks, and few of a node
      // The first member of a group hears from all others and answers them.
      EXPECT_LE(of_many.messages, 2 * of_many.members + 100);
      EXPECT_LE(of_many.messages, 11 * of_few.messages);
      // A rank receives of each other rank: a word of the doctor, exit code, digests of facts, and the folder; beside
      // them a few texts of the first rank, and the readings of seven ranks of the node.
      EXPECT_LE(of_many.received_bytes, int64_t{88} * 10'000 + 50'000);
      EXPECT_LE(of_many.weight_bytes, 11 * of_few.weight_bytes);
    }
    EXPECT_GT(many[0].counts.messages, 10'000);
    EXPECT_LE(many[3].counts.messages, 100);  // the last rank is never the first member of a large group
  }
}

// The whole start, model and optimizer of the tiny run included, in a process of its own beside one that does nothing.
TEST_F(ManyRanks, AStartTakesLessThan64MiBBesideTheProgram) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"layout.sharding=\"zero3\""},
        {"layout.tensor=2", "layout.pipeline=2", "layout.sharding=\"zero1\""}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    starts(10'000, layout);  // what the first rank broadcasts
    const int64_t program = data::peak_memory_of([] { return true; });
    for (const int64_t rank : {0, 9999}) {
      const int64_t peak = data::peak_memory_of([&] {
        start(rank, 10'000, layout);
        return !HasFailure();
      });
      EXPECT_LT(peak - program, int64_t{64} << 20) << "rank " << rank;
    }
  }
}

// Comparing the facts of each of 200,000 ranks with those of all would take minutes.
TEST_F(ManyRanks, FactsThatAllDifferAreToldApartInLinearTime) {
  class Numbered : public comm::Comm {
   public:
    Numbered() : Comm(mesh::all_ranks("control", 200'000), 1) {}

   private:
    comm::Work start(const comm::Call& call, comm::Owner) override {
      if (call.kind != comm::Kind::all_gather) return {};
      for (int64_t i = 0; i < size(); ++i) {
        const std::string digest = fmt::format("{:016x}", i);
        std::memcpy(static_cast<char*>(call.to) + i * call.count, digest.data(), digest.size());
      }
      compared = true;
      return {};
    }

   public:
    bool compared = false;
  } all;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_ANY_THROW(train::check_same(all, {{"a", "1"}}));
  EXPECT_TRUE(all.compared);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

}  // namespace
}  // namespace terrace::run
