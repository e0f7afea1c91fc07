// Ranks that throw, end, abort, disagree or come too late: the others fail with the reason and nobody hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "terrace/comm/threads/threads.h"

namespace terrace::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const Label label = {.what = "reduce gradients", .segment = 7, .phase = "backward"};

// The error that the call throws, or "nothing".
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CommError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Failure, FailedRankIsReportedToTheOthersAndTheCaller) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    std::atomic<int64_t> informed = 0;
    const auto run = [&] {
      run_threads(ranks, {}, [&](World& world) {
        if (world.rank() == ranks - 1) throw std::runtime_error("no bread");
        const auto comm = world.connect({"pair", {world.rank(), ranks - 1}});
        float data = 1;
        const std::string error = error_of([&] { comm->all_reduce(&data, 1, Type::fp32, label).wait(); });
        EXPECT_THAT(error, StartsWith("rank " + std::to_string(ranks - 1) + " failed: no bread"));
        // Every call after it fails too.
        EXPECT_THAT(error_of([&] { comm->barrier({}).wait(); }), AllOf(StartsWith("rank "), HasSubstr("no bread")));
        ++informed;
      });
    };
    EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("no bread"));
    EXPECT_EQ(informed, ranks - 1);
  }
}

// The exception destroys a call of its own, which the others never make.
TEST(Failure, FailedRankWithACallUnderWayIsReportedBeforeTimeOut) {
  for (const int64_t count : {int64_t{1}, int64_t{1} << 20}) {
    const auto run = [&] {
      run_threads(3, {.timeout_seconds = 30}, [&](World& world) {
        const auto comm = world.connect({"data", {0, 1, 2}});
        const auto own = world.connect({"own", {0, 1, 2}});
        std::vector<float> data(static_cast<size_t>(count));
        if (world.rank() == 2) {
          const Work work = own->all_reduce(data.data(), count, Type::fp32, label);
          throw std::runtime_error("no bread");
        }
        const auto wait = [&] { comm->all_reduce(data.data(), count, Type::fp32, label).wait(); };
        const std::string error = error_of(wait);
        EXPECT_THAT(error, StartsWith("rank 2 failed: no bread"));
        throw CommError(error);
      });
    };
    EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("no bread"));
  }
}

// The others have long ended when it has.
TEST(Failure, CallerGetsTheErrorOfARankThatEndsLate) {
  struct Slow {
    ~Slow() { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }
  };
  const auto run = [] {
    run_threads(3, {}, [](World& world) {
      const auto comm = world.connect({"data", {0, 1, 2}});
      if (world.rank() != 1) return comm->barrier({}).wait();
      const Slow slow;
      world.abort("rank 1 failed: no bread");
      throw std::invalid_argument("no bread");
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<std::invalid_argument>("no bread"));
}

TEST(Failure, CallerGetsTheErrorOfARankThatTimedOut) {
  const auto run = [] {
    run_threads(2, {.timeout_seconds = 0.2}, [](World& world) {
      const auto comm = world.connect({"data", {0, 1}});
      if (world.rank() == 0) comm->barrier({}).wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      throw std::runtime_error("the disk is broken");
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("the disk is broken"));
}

TEST(Failure, NoTimeOutWhereTheLimitIsLifted) {
  run_threads(3, {.timeout_seconds = 0.1}, [](World& world) {
    const auto comm = world.connect({"saving", {0, 1, 2}});
    comm->lift_time_limit();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    int64_t sum = 1;
    comm->all_reduce(&sum, 1, Type::int64, label).wait();
    std::vector<float> data(1 << 16, 1.0F);
    if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    comm->all_reduce(data.data(), 1 << 16, Type::fp32, label).wait();
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(data.back(), 3);
  });
}

TEST(Failure, EndsCallsWhoseLimitIsLifted) {
  const auto run = [] {
    run_threads(3, {.timeout_seconds = 0.1}, [](World& world) {
      const auto comm = world.connect({"saving", {0, 1, 2}});
      comm->lift_time_limit();
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (world.rank() == 1) throw std::runtime_error("no bread");
      EXPECT_THAT(error_of([&] { comm->barrier(label).wait(); }), StartsWith("rank 1 failed: no bread"));
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("no bread"));
}

TEST(Failure, NamesAnEndedRank) {
  std::string error;
  const auto run = [&] {
    run_threads(3, {}, [&](World& world) {
      const auto comm = world.connect({"data", {0, 1, 2}});
      comm->barrier({}).wait();
      if (world.rank() == 1) return;
      float data = 1;
      comm->all_reduce(&data, 1, Type::fp32, label).wait();
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<CommError>(
                       AllOf(HasSubstr("rank 1 has ended"),
                             HasSubstr("waits in all_reduce(data), reduce gradients, segment 7, backward, call 2"),
                             HasSubstr("rank 1 never entered it"))));
}

// Rank 0 waits for rank 2, which waits for rank 1, which computes.
TEST(Failure, NamesTheRankThatAWaitingRankWaitsFor) {
  std::atomic<bool> over = false;
  const auto run = [&] {
    run_threads(3, {.timeout_seconds = 0.6}, [&](World& world) {
      const auto left = world.rank() == 1 ? nullptr : world.connect({"left", {0, 2}});
      const auto right = world.rank() == 0 ? nullptr : world.connect({"right", {1, 2}});
      float data = 1;
      if (world.rank() == 0) {
        const auto tell = [&] { left->all_reduce(&data, 1, Type::fp32, label).wait(); };
        EXPECT_THAT(error_of(tell), AllOf(StartsWith("waited 0.6 s: rank 0 waits in all_reduce(left)"),
                                          HasSubstr("; rank 2 never entered it; its last call is all_reduce(right)"),
                                          HasSubstr("; rank 2 waits for rank 1; it has made no call")));
        over = true;
      } else if (world.rank() == 1) {
        while (!over) std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        error_of([&] { right->all_reduce(&data, 1, Type::fp32, label).wait(); });
      }
    });
  };
  run();
}

// Rank 0 waits for rank 1, which waits for rank 2, which waits for rank 0: nobody has a limit, and nobody ends.
TEST(Failure, EndsRanksThatWaitForEachOtherForEver) {
  const auto run = [] {
    run_threads(4, {.timeout_seconds = 3600}, [](World& world) {
      const int64_t rank = world.rank();
      if (rank == 3) return;
      const auto comm = world.connect({"ring", {0, 1, 2}});
      float data = 1;
      comm->receive(&data, 1, Type::fp32, (rank + 1) % 3, label).wait();
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<CommError>(
                       AllOf(StartsWith("deadlock: every rank waits for another one; rank 0 waits for rank 1; its last "
                                        "call is receive(ring)"),
                             HasSubstr("; rank 1 waits for rank 2;"), HasSubstr("; rank 2 waits for rank 0;"))));
}

// The others wait for longer than it takes to see a deadlock, but one computes.
TEST(Failure, WaitingForARankThatComputesIsNoDeadlock) {
  run_threads(3, {.timeout_seconds = 3600}, [](World& world) {
    const auto comm = world.connect({"data", {0, 1, 2}});
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    int64_t data = 1;
    comm->all_reduce(&data, 1, Type::int64, label).wait();
    EXPECT_EQ(data, 3);
  });
}

TEST(Failure, CallsMadeBeforeARankEndedComplete) {
  run_threads(2, {}, [](World& world) {
    const auto comm = world.connect({"data", {0, 1}});
    int64_t sent = 5, received = 0;
    if (world.rank() == 0) {
      comm->send(&sent, 1, Type::int64, 1, {}).wait();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      comm->receive(&received, 1, Type::int64, 0, {}).wait();
      EXPECT_EQ(received, 5);
    }
  });
}

TEST(Failure, AbortGivesItsReason) {
  std::atomic<int64_t> informed = 0;
  run_threads(3, {}, [&](World& world) {
    const auto comm = world.connect({"data", {0, 1, 2}});
    if (world.rank() == 2) return world.abort("the disk is full");
    EXPECT_THAT(error_of([&] { comm->barrier({}).wait(); }), StartsWith("the disk is full"));
    ++informed;
  });
  EXPECT_EQ(informed, 2);
}

TEST(Failure, TimeOutEndsTheRunAndSaysTheLimit) {
  const auto run = [] {
    run_threads(4, {.timeout_seconds = 0.2}, [](World& world) {
      const auto comm = world.connect({"data", {0, 1, 2, 3}});
      comm->barrier({}).wait();
      float data = 1;
      // Rank 1 waits for a message that nobody sends.
      Work work = world.rank() == 1 ? comm->receive(&data, 1, Type::fp32, 3, {"activations"})
                                    : comm->all_reduce(&data, 1, Type::fp32, label);
      work.wait();
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<CommError>(HasSubstr("waited 0.2 s")));
}

TEST(Failure, LeavesNoBufferBehindThatAPeerStillTouches) {
  // A large call is open when rank 0 fails; its buffers are freed while rank 1 still adds up pieces.
  for (int round = 0; round < 20; ++round) {
    const auto run = [] {
      run_threads(2, {}, [](World& world) {
        const auto comm = world.connect({"data", {0, 1}});
        std::vector<float> data(1 << 20, 1.0F);
        Work work = comm->all_reduce(data.data(), 1 << 20, Type::fp32, label);
        if (world.rank() == 0) throw std::runtime_error("gone");
        work.wait();
        EXPECT_EQ(data.back(), 2.0F);
      });
    };
    EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("gone"));
  }
}

// Kind, type, count and root are always compared; the label only where it is asked for.
TEST(Failure, DisagreeingCallsAreBothNamed) {
  using Start = std::function<Work(Comm&, void*)>;
  const Start usual = [](Comm& comm, void* data) { return comm.all_reduce(data, 8, Type::fp32, label); };
  struct Case {
    bool check_calls;
    Start first, other;
    std::string said;
  };
  const Start rooted = [](Comm& comm, void* data) { return comm.broadcast(data, 8, Type::fp32, 0, label); };
  const Start few = [](Comm& comm, void* data) { return comm.all_reduce(data, 2, Type::fp32, label); };
  const std::vector<Case> cases = {
      {false, few, [](Comm& comm, void* data) { return comm.all_reduce(data, 1, Type::fp32, label); }, "1 fp32"},
      {false, few, [](Comm& comm, void* data) { return comm.all_reduce(data, 9, Type::fp32, label); }, "9 fp32"},
      {false, few, [](Comm& comm, void* data) { return comm.all_gather(data, data, 2, Type::fp32, label); },
       "all_gather"},
      {false, usual, [](Comm& comm, void*) { return comm.barrier(label); }, "barrier"},
      {true, few, [](Comm& comm, void* data) { return comm.all_reduce(data, 2, Type::fp32, {"norm"}); }, "norm"},
      {false, usual, [](Comm& comm, void* data) { return comm.all_gather(data, data, 8, Type::fp32, label); },
       "all_gather"},
      {false, usual, [](Comm& comm, void* data) { return comm.all_reduce(data, 8, Type::bf16, label); }, "8 bf16"},
      {false, usual, [](Comm& comm, void* data) { return comm.all_reduce(data, 9, Type::fp32, label); }, "9 fp32"},
      {false, rooted, [](Comm& comm, void* data) { return comm.broadcast(data, 8, Type::fp32, 1, label); },
       "from member 1"},
      {true, usual, [](Comm& comm, void* data) { return comm.all_reduce(data, 8, Type::fp32, {"norm"}); }, "norm"},
  };
  for (const Case& one : cases) {
    std::atomic<int64_t> informed = 0;
    const auto run = [&] {
      run_threads(3, {.check_calls = one.check_calls}, [&](World& world) {
        const auto comm = world.connect({"data", {0, 1, 2}});
        std::vector<float> data(100, 1.0F);
        const std::string error =
            error_of([&] { (world.rank() == 2 ? one.other : one.first)(*comm, data.data()).wait(); });
        EXPECT_THAT(error, AllOf(HasSubstr("rank 0 makes"), HasSubstr("reduce gradients, segment 7"),
                                 HasSubstr("rank 2 makes"), HasSubstr(one.said)));
        EXPECT_EQ(data, std::vector<float>(100, 1.0F));
        ++informed;
      });
    };
    run();
    EXPECT_EQ(informed, 3);
  }
}

TEST(Failure, DifferentLabelsAreAcceptedUnlessCallsAreChecked) {
  run_threads(2, {}, [](World& world) {
    const auto comm = world.connect({"data", {0, 1}});
    float data = 1;
    comm->all_reduce(&data, 1, Type::fp32, world.rank() == 0 ? label : Label{}).wait();
    EXPECT_EQ(data, 2);
  });
}

TEST(Failure, SendAndReceiveOfDifferentSizesAreBothNamed) {
  const auto run = [] {
    run_threads(2, {}, [](World& world) {
      const auto comm = world.connect({"pipeline", {0, 1}});
      std::vector<float> data(10);
      Work work = world.rank() == 0 ? comm->send(data.data(), 10, Type::fp32, 1, {})
                                    : comm->receive(data.data(), 9, Type::fp32, 0, {});
      work.wait();
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<CommError>(
                       AllOf(HasSubstr("rank 0 makes send(pipeline) to rank 1, call 1 of 10 fp32"),
                             HasSubstr("rank 1 makes receive(pipeline) from rank 0, call 1 of 9 fp32"))));
}

}  // namespace
}  // namespace terrace::comm
