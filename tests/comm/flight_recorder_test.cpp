// The last calls of a rank: how they are recorded and described, and written at time-outs, failures and requests.
#include "terrace/comm/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/comm/threads/threads.h"
#include "tests/scratch_folder.h"

namespace terrace::comm {
namespace {

using Clock = std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

Call numbered(int64_t i) {
  return {.kind = Kind::all_gather,
          .type = Type::bf16,
          .count = i,
          .label = {.segment = i},
          .sequence = static_cast<uint64_t>(i)};
}

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file).get<std::vector<Json>>();
}

TEST(FlightRecorder, KeepsTheLastCallsInOrder) {
  FlightRecorder recorder(3);
  EXPECT_EQ(recorder.last_calls().size(), 0U);
  EXPECT_EQ(recorder.describe_last_call(), "it has made no call");
  const int64_t data = recorder.add_group({"data", {3, 5}});
  const int64_t pair = recorder.add_group({"pair", {2, 3}});
  EXPECT_EQ(recorder.add_group({"data", {3, 5}}), data);
  for (int64_t i = 0; i < 300; ++i) {
    const uint64_t ticket = recorder.enter(i % 2 == 0 ? data : pair, numbered(i));
    if (i != 298) recorder.finish(ticket, Clock::now());
  }
  const std::vector<FlightEntry> calls = recorder.last_calls();
  ASSERT_EQ(calls.size(), FlightRecorder::kept_calls);
  for (int64_t i = 44; i < 300; ++i) {
    const FlightEntry& entry = calls[static_cast<size_t>(i - 44)];
    EXPECT_EQ(entry.call.count, i);
    EXPECT_EQ(entry.call.kind, Kind::all_gather);
    EXPECT_EQ(entry.call.type, Type::bf16);
    EXPECT_EQ(entry.call.label, numbered(i).label);
    EXPECT_EQ(entry.group->name, i % 2 == 0 ? "data" : "pair");
    EXPECT_EQ(entry.done.has_value(), i != 298);
  }
  EXPECT_THAT(calls[254].describe(),
              AllOf(HasSubstr("all_gather(data), segment 298, call 298, entered"), HasSubstr("s ago")));
  EXPECT_THAT(recorder.describe_last_call(),
              HasSubstr("its last call is all_gather(pair), segment 299, call 299, done"));
}

TEST(FlightRecorder, ConsistentReadsWhileCallsAreWritten) {
  FlightRecorder recorder(0);
  const int64_t group = recorder.add_group({"data", {0}});
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int64_t i = 1; !stop; ++i) recorder.finish(recorder.enter(group, numbered(i)), Clock::now());
  });
  int64_t seen = 0;
  while (seen < 2000) {
    int64_t before = 0;
    for (const FlightEntry& entry : recorder.last_calls()) {
      // All parts of one call, and the calls in order.
      ASSERT_EQ(entry.call.count, entry.call.label.segment);
      ASSERT_EQ(entry.call.count, static_cast<int64_t>(entry.call.sequence));
      ASSERT_GT(entry.call.count, before);
      before = entry.call.count;
      ++seen;
    }
  }
  stop = true;
  writer.join();
}

TEST(FlightRecorder, WritesNoFileWithoutCalls) {
  const ScratchFolder folder;
  std::ofstream(folder / "flight_rank_000.json") << "of an earlier run";
  FlightRecorder(0).write(folder.path());
  FlightRecorder(1).write(folder / "none");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FlightRecorder, WritesAListInJson) {
  const ScratchFolder folder;
  FlightRecorder recorder(3);
  const int64_t group = recorder.add_group({"pipeline", {3, 7}});
  Call call = {.kind = Kind::send, .type = Type::fp32, .count = 12, .peer = 1};
  call.label = {.what = "activations", .phase = "forward", .micro_batch = 2};
  call.sequence = 9;
  const uint64_t ticket = recorder.enter(group, call);
  recorder.finish(ticket, Clock::now());
  recorder.enter(group, {.kind = Kind::barrier, .sequence = 10});
  recorder.write(folder / "flights");
  const std::vector<Json> lines = lines_of(folder / "flights" / "flight_rank_003.json");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("rank"), 3);
  EXPECT_EQ(lines[0].at("call"), "send");
  EXPECT_EQ(lines[0].at("peer"), 7);
  EXPECT_EQ(lines[0].at("group"), "pipeline");
  EXPECT_EQ(lines[0].at("what"), "activations");
  EXPECT_EQ(lines[0].at("phase"), "forward");
  EXPECT_EQ(lines[0].at("micro_batch"), 2);
  EXPECT_EQ(lines[0].at("count"), 12);
  EXPECT_EQ(lines[0].at("type"), "fp32");
  EXPECT_EQ(lines[0].at("sequence"), 9);
  EXPECT_EQ(lines[0].at("state"), "done");
  EXPECT_GE(lines[0].at("seconds"), 0.0);
  EXPECT_FALSE(lines[0].contains("segment"));
  EXPECT_EQ(lines[1].at("state"), "entered");
  EXPECT_FALSE(lines[1].contains("seconds"));
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(lines[1].at("entered"), now, 60);
}

// Rank 1 gathers once and computes; ranks 0 and 2 reduce.
TEST(TimeOut, SaysWhoIsWhereAndWritesTheLastCalls) {
  const ScratchFolder folder;
  const auto run = [&] {
    run_threads(3, {.timeout_seconds = 0.2, .flight_folder = folder.path()}, [](World& world) {
      const auto comm = world.connect({"data", {0, 1, 2}});
      std::vector<float> data(3);
      comm->all_gather(&data[static_cast<size_t>(world.rank())], data.data(), 1, Type::fp32,
                       {"gather weights", 8, "forward"})
          .wait();
      if (world.rank() == 1) {
        try {
          comm->receive(data.data(), 1, Type::fp32, 0, {"activations"}).wait();
        } catch (const CommError&) {
        }
        return;
      }
      comm->all_reduce(data.data(), 3, Type::fp32, {"reduce gradients", 7, "backward"}).wait();
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<CommError>(AllOf(HasSubstr("waited 0.2 s"), HasSubstr("waits in "),
                                                           HasSubstr("never entered it; its last call is "))));
  for (int64_t rank = 0; rank < 3; ++rank) {
    const std::vector<Json> lines = lines_of(folder / ("flight_rank_00" + std::to_string(rank) + ".json"));
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].at("call"), "all_gather");
    EXPECT_EQ(lines[0].at("state"), "done");
    EXPECT_EQ(lines[1].at("call"), rank == 1 ? "receive" : "all_reduce");
    EXPECT_EQ(lines[1].at("state"), "entered");
  }
}

TEST(TimeOut, NamesTheLastCallOfARankThatComputes) {
  std::atomic<bool> over = false;
  const auto run = [&] {
    run_threads(2, {.timeout_seconds = 0.1}, [&](World& world) {
      const auto comm = world.connect({"data", {0, 1}});
      std::vector<float> data(2);
      comm->all_gather(&data[static_cast<size_t>(world.rank())], data.data(), 1, Type::fp32,
                       {"gather weights", 8, "forward"})
          .wait();
      if (world.rank() == 1) {
        while (!over) std::this_thread::yield();
        return;
      }
      try {
        comm->all_reduce(data.data(), 2, Type::fp32, {"reduce gradients", 7, "backward"}).wait();
      } catch (...) {
        over = true;
        throw;
      }
    });
  };
  EXPECT_THAT(run,
              testing::ThrowsMessage<CommError>(AllOf(HasSubstr(
                  "rank 0 waits in all_reduce(data), reduce gradients, segment 7, backward, call 2; rank 1 never "
                  "entered it; its last call is all_gather(data), gather weights, segment 8, forward, call 1, done"))));
}

void wait_for_file(const std::filesystem::path& path) {
  const auto began = Clock::now();
  while (!std::filesystem::exists(path)) {
    ASSERT_LT(Clock::now() - began, std::chrono::seconds(60));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(Report, WritesFilesOfComputingRanksToo) {
  for (const int64_t ranks : {1, 3}) {
    const ScratchFolder folder;
    std::atomic<int> requests = 7;
    run_threads(ranks, {.flight_folder = folder.path(), .report_requests = &requests}, [&](World& world) {
      const auto comm = world.connect({"own", {world.rank()}});
      comm->barrier({"start"}).wait();
      if (world.rank() == 0) ++requests;
      wait_for_file(folder / ("flight_rank_00" + std::to_string(ranks - 1) + ".json"));
    });
    for (int64_t rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(std::filesystem::exists(folder / ("flight_rank_00" + std::to_string(rank) + ".json")));
    }
  }
}

TEST(Report, WritesOnRequestWhileTheRunGoesOn) {
  const ScratchFolder folder;
  std::atomic<int> requests = 0;
  run_threads(2, {.flight_folder = folder.path(), .report_requests = &requests}, [&](World& world) {
    const auto comm = world.connect({"data", {0, 1}});
    if (world.rank() == 0) {
      // The other one waits by now, and has recorded its call.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++requests;
      wait_for_file(folder / "flight_rank_001.json");
    }
    comm->barrier({"meet"}).wait();
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "flight_rank_000.json"));
  const std::vector<Json> lines = lines_of(folder / "flight_rank_001.json");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].at("what"), "meet");
  EXPECT_EQ(lines[0].at("state"), "entered");
}

TEST(TimeOutDeathTest, EndsTheProcessWhereARankComputesForEver) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto run = [] {
    start_log();
    run_threads(2, {.timeout_seconds = 0.1}, [](World& world) {
      const auto comm = world.connect({"data", {0, 1}});
      while (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
      comm->barrier({"meet"}).wait();
    });
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(5), "rank 1 never entered it.*ranks 1 have not ended");
}

}  // namespace
}  // namespace terrace::comm
