// Saving from many ranks and loading on any other number of ranks: the same bits, each written once; and the state of
// the folder after a rank fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <mutex>
#include <set>

#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/base/random.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/safetensors.h"
#include "tests/checkpoint/rank_states.h"
#include "tests/file_size_limit.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const std::vector<Layout> layouts = {
    {"one", 1, flat},       {"flat of 2", 2, flat}, {"flat of 3", 3, flat},   {"each of 3", 3, each},
    {"flat of 4", 4, flat}, {"last of 4", 4, last}, {"flat of 5", 5, flat},   {"each of 8", 8, each},
    {"flat of 8", 8, flat}, {"2 x 2", 4, flat, 2},  {"tensor 3", 3, each, 3}, {"3 x 2", 6, each, 2},
};

// The message that all ranks throw, or "" where none throws. The test fails where they differ.
std::string error_on_all(int64_t ranks, const std::function<void(comm::Comm&)>& action) {
  std::mutex mutex;
  std::multiset<std::string> messages;
  on_ranks(ranks, [&](comm::Comm& comm) {
    const std::string message = user_error([&] { action(comm); });
    const std::lock_guard lock(mutex);
    messages.insert(message);
  });
  EXPECT_EQ(messages.count(*messages.begin()), static_cast<size_t>(ranks)) << *messages.begin();
  return *messages.begin();
}

TEST(Ranks, EveryLayoutReadsWhatEveryOtherSaved) {
  for (const Layout& from : layouts) {
    const ScratchFolder folder;
    const fs::path checkpoint = save_at(from, folder.path(), 7, 0.5);
    EXPECT_EQ(Reader(checkpoint).trainer().at("salt").get<double>(), 0.5);
    for (const Layout& to : layouts) {
      SCOPED_TRACE(std::string(from.name) + " to " + to.name);
      expect_reads_at(to, checkpoint, 0.5);
    }
  }
}

TEST(Ranks, EachByteIsWrittenOnce) {
  int64_t elements = 0;
  for (size_t i = 0; i < sample_shapes.size(); ++i) elements += parameter_values(0, i, 0).numel();
  for (const Layout& layout : layouts) {
    const ScratchFolder folder;
    const fs::path checkpoint = save_at(layout, folder.path(), 1, 0.0);
    int64_t bytes = 0;
    for (const std::string& name : names_in(checkpoint)) {
      if (!name.ends_with(".safetensors")) continue;
      const MappedFile file(checkpoint / name);
      uint64_t header_bytes = 0;
      std::memcpy(&header_bytes, file.bytes().data(), sizeof(header_bytes));
      bytes += static_cast<int64_t>(file.bytes().size() - sizeof(header_bytes) - header_bytes);
    }
    EXPECT_EQ(bytes, 3 * 4 * elements) << layout.name;
  }
}

TEST(Ranks, EachWritesFilesOfItsOwnAndNoneWithoutATensor) {
  const ScratchFolder folder;
  const std::set<std::string> once = {"COMPLETE", "config.toml", "manifest.json"};
  const auto names = [&](const Layout& layout) {
    std::set<std::string> found = names_in(save_at(layout, folder / std::to_string(layout.ranks), 1, 0.0));
    for (const std::string& name : once) EXPECT_EQ(found.erase(name), 1u) << name;
    return found;
  };
  EXPECT_EQ(names({"one", 1, flat}),
            (std::set<std::string>{"optimizer_m.safetensors", "optimizer_v.safetensors", "weights.safetensors"}));
  EXPECT_EQ(names({"two", 2, flat}),
            (std::set<std::string>{"optimizer_m.rank_0000.safetensors", "optimizer_m.rank_0001.safetensors",
                                   "optimizer_v.rank_0000.safetensors", "optimizer_v.rank_0001.safetensors",
                                   "weights.rank_0000.safetensors", "weights.rank_0001.safetensors"}));
  EXPECT_EQ(names({"last", 3, last}),
            (std::set<std::string>{"optimizer_m.rank_0002.safetensors", "optimizer_v.rank_0002.safetensors",
                                   "weights.rank_0002.safetensors"}));
}

TEST(Ranks, PartsOfATensorAreEntriesNamedByTheirOffset) {
  const ScratchFolder folder;
  const fs::path checkpoint = save_at({"two", 2, each}, folder.path(), 1, 0.0);
  // 46 of 13 times 7 elements are six rows and four of the next.
  const SafetensorsFile first(checkpoint / "weights.rank_0000.safetensors");
  const SafetensorsFile second(checkpoint / "weights.rank_0001.safetensors");
  const auto shape = [](const SafetensorsFile& file, const char* entry) {
    const SafetensorsEntry* found = file.header().find(entry);
    return found == nullptr ? std::vector<int64_t>{-1} : found->shape;
  };
  EXPECT_EQ(shape(first, "parameters.0.weight@0,0"), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(shape(first, "parameters.0.weight@6,0"), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(shape(second, "parameters.0.weight@6,4"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(shape(second, "parameters.0.weight@7,0"), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(shape(first, "parameters.4.weight"), std::vector<int64_t>{1});
  const at::Tensor values = first.tensor(*first.header().find("parameters.0.weight@6,0"));
  EXPECT_TRUE(same_bits(values.clone(), parameter_values(0, 0, 0.0).narrow(0, 6, 1).narrow(1, 0, 4).contiguous()));
}

TEST(Ranks, AWholeTensorAndSeveralRangesOfOneAreReadToo) {
  const ScratchFolder folder;
  const Reader reader(save_at({"five", 5, flat}, folder.path(), 1, 0.0));
  const at::Tensor whole = parameter_values(0, 0, 0.0), flat_whole = whole.reshape({-1});
  Collection wanted = state_of({"one", 1, last}, 0, 1, 0.0, false).collections[0];
  wanted.tensors[0].range = ElementRange{80, 91, {13, 7}};
  wanted.tensors[0].tensor = at::full({11}, -9.0F);
  wanted.tensors.push_back({parameter_name(0), at::full({5}, -9.0F), wanted.tensors[0].mark, {{3, 8, {13, 7}}}});
  wanted.tensors.push_back({parameter_name(0), at::full({13, 7}, -9.0), wanted.tensors[0].mark});
  reader.read(wanted);
  EXPECT_TRUE(same_bits(wanted.tensors[0].tensor, flat_whole.narrow(0, 80, 11).clone()));
  EXPECT_TRUE(same_bits(wanted.tensors[sample_shapes.size()].tensor, flat_whole.narrow(0, 3, 5).clone()));
  EXPECT_TRUE(same_bits(wanted.tensors.back().tensor, whole.to(wanted.tensors.back().tensor.scalar_type())));
}

TEST(Ranks, OneRankWritesTheSameFilesAsAPlainSave) {
  const ScratchFolder folder;
  const State state = sample_state(3);
  const fs::path plain = save(folder / "plain", state, {});
  on_ranks(1, [&](comm::Comm& ranks) { save(folder / "ranks", state, {}, ranks); });
  for (const std::string& name : names_in(plain)) {
    EXPECT_EQ(read_text(plain / name), read_text(folder / "ranks/step_00000003" / name)) << name;
  }
  EXPECT_THAT(read_text(plain / manifest_name), HasSubstr("\"format\": 1,"));
}

TEST(Ranks, ReplaceAndRetainAsOneDoes) {
  const ScratchFolder folder;
  const Layout three{"three", 3, flat}, two{"two", 2, each};
  for (int64_t step : {1, 2, 3}) save_at(three, folder.path(), step, 0.0, {.keep = 2});
  save_at(two, folder.path(), 3, 1.0, {.keep = 2});
  EXPECT_EQ(names_in(folder.path()), (std::set<std::string>{"step_00000002", "step_00000003"}));
  expect_reads_at(three, folder / "step_00000002", 0.0);
  expect_reads_at(three, folder / "step_00000003", 1.0);
}

struct FailingRanks : testing::Test {
  FailingRanks() { save_at(three, folder.path(), 1, 0.0); }

  // Nothing is left of the second save, and the first is whole.
  void expect_untouched() const {
    EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"step_00000001"});
    expect_reads_at(three, folder / "step_00000001", 0.0);
  }

  // Saves each rank's state after `change` was applied to it.
  std::string saving(const std::function<void(State&, int64_t rank)>& change) const {
    return error_on_all(3, [&](comm::Comm& ranks) {
      State state = state_of(three, ranks.member(), 2, 0.0);
      change(state, ranks.member());
      save(folder.path(), state, {.keep = 1}, ranks);
    });
  }

  const Layout three{"three", 3, flat};
  ScratchFolder folder;
};

TEST_F(FailingRanks, AFailedWriteOfOneRankEndsTheSaveOnAll) {
  for (int64_t culprit : {0, 1, 2}) {
    const FileSizeLimit limit(100'000);
    EXPECT_THAT(saving([&](State& state, int64_t rank) {
                  if (rank == culprit)
                    state.collections[1].tensors.push_back(replicated("large", sample_values({50'000}, 1)));
                }),
                AllOf(HasSubstr("step_00000002 was not saved: rank " + std::to_string(culprit)),
                      HasSubstr("File too large"), HasSubstr("were free"), HasSubstr("Earlier checkpoints")));
    expect_untouched();
  }
}

TEST_F(FailingRanks, TotalSizeIsComparedWithTheFreeSpace) {
  EXPECT_THAT(saving([](State& state, int64_t rank) {
                const at::Tensor huge = at::full({1}, 1.0F).expand({int64_t{1} << 46});
                if (rank == 1) state.collections[0].tensors.push_back(replicated("huge", huge));
              }),
              AllOf(HasSubstr("rank 0: the disk is too full"), HasSubstr("256.0 TiB")));
  expect_untouched();
}

TEST_F(FailingRanks, TwoSavesAtATimeAreRefusedOnAll) {
  const FileLock lock(folder / lock_name, "held");
  EXPECT_THAT(saving([](State&, int64_t) {}), HasSubstr("another save into"));
}

TEST_F(FailingRanks, ElementsThatNobodyOrTwoRanksWriteAreAnError) {
  EXPECT_THAT(saving([](State& state, int64_t rank) {
                NamedTensor& named = state.collections[2].tensors[0];
                if (rank != 0) return;
                named.range->begin += 1;
                named.tensor = named.tensor.narrow(0, 1, named.tensor.numel() - 1);
              }),
              AllOf(HasSubstr("what the ranks wrote is not all of the optimizer_v: 'parameters.0.weight' of shape "
                              "[13, 7] has 90 of its 91 elements; the first that is missing is at [0, 0]"),
                    HasSubstr("error of the program")));
  expect_untouched();
  EXPECT_THAT(saving([](State& state, int64_t rank) {
                NamedTensor& named = state.collections[0].tensors[0];
                if (rank == 2) named.range = {0, 1, {13, 7}}, named.tensor = at::full({1}, 1.0F);
              }),
              HasSubstr("'parameters.0.weight' of shape [13, 7] has elements twice: "));
  expect_untouched();
  EXPECT_THAT(saving([](State& state, int64_t) {
                NamedTensor& named = state.collections[0].tensors[1];
                named.range = {0, 0, {5}};
                named.tensor = at::full({0}, 1.0F);
              }),
              HasSubstr("no rank has an element of 'parameters.1.weight'"));
  expect_untouched();
}

TEST_F(FailingRanks, TheNextSaveSucceeds) {
  EXPECT_NE(saving([](State& state, int64_t rank) {
              if (rank == 0) state.collections[0].tensors[0].name = "another";
            }),
            "");
  EXPECT_EQ(saving([](State&, int64_t) {}), "");
  expect_reads_at(three, folder / "step_00000002", 0.0);
}

// Saves one step after another, each twice, until it is killed. All numbers in one save have the same salt.
[[noreturn]] void save_forever(const Layout& layout, const fs::path& folder) {
  for (int64_t step = 2;; ++step) {
    for (double salt : {0.5, 0.25}) save_at(layout, folder, step, static_cast<double>(step) + salt, {.keep = 2});
  }
}

TEST(Ranks, AKilledSaveLeavesOnlyWholeCheckpoints) {
  const ScratchFolder folder;
  const Layout two{"two", 2, flat}, three{"three", 3, flat};
  save_at(two, folder.path(), 1, 1.0);
  int interrupted = 0;
  for (uint64_t round = 0; round < 8 || (interrupted == 0 && round < 64); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_forever(two, folder.path());
    ::usleep(500 + philox_at({5, 4}, round, 0)[0] % 150'000);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);

    const auto checkpoints = list(folder.path());
    ASSERT_FALSE(checkpoints.empty());
    interrupted += names_in(folder.path()).size() != checkpoints.size();
    for (const auto& path : checkpoints) {
      expect_reads_at(three, path, Reader(path).trainer().at("salt").get<double>());
    }
  }
  EXPECT_GT(interrupted, 0) << "no kill came in the middle of a save";
  save_at(three, folder.path(), 1000, 0.0, {.keep = 1});
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"step_00001000"});
}

TEST(Ranks, ADamagedFileIsNamedToThoseThatNeedIt) {
  const ScratchFolder folder;
  const Layout four{"four", 4, flat};
  const fs::path checkpoint = save_at(four, folder.path(), 1, 0.0);
  const fs::path damaged = checkpoint / "weights.rank_0002.safetensors";
  std::ofstream(damaged, std::ios::in | std::ios::out | std::ios::binary).seekp(-2, std::ios::end) << "xx";
  for (int64_t rank = 0; rank < 4; ++rank) {
    const std::string message =
        user_error([&] { Reader(checkpoint).read(state_of(four, rank, 1, 0.0, false).collections[0]); });
    if (rank == 2) {
      EXPECT_THAT(message, AllOf(HasSubstr(damaged.string() + " is damaged: its checksum is"),
                                 HasSubstr("no other complete checkpoint")));
    } else {
      EXPECT_EQ(message, "") << rank;
    }
  }
  EXPECT_THAT(user_error([&] {
                Reader(checkpoint).read(state_of({"one", 1, flat}, 0, 1, 0.0, false).collections[0]);
              }),
              HasSubstr(damaged.string()));
}

TEST(Ranks, AMissingFileIsFoundByOneOfThoseThatOpenTheCheckpoint) {
  const ScratchFolder folder;
  const fs::path checkpoint = save_at({"four", 4, flat}, folder.path(), 1, 0.0);
  const fs::path gone = checkpoint / "optimizer_m.rank_0003.safetensors";
  fs::remove(gone);
  int found = 0;
  for (int64_t member = 0; member < 3; ++member) {
    const std::string message = user_error([&] { Reader(checkpoint, member, 3); });
    if (message.empty()) continue;
    EXPECT_THAT(message, HasSubstr(gone.string()));
    ++found;
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace terrace::checkpoint
