// Ranks under mpirun, of which rank 1 does what the first argument says; the others report what they see of it. They
// end as the terrace program does: with the reason on standard error and exit code 5.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/mpi/mpi.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

const Label label = {.what = "reduce gradients", .segment = 7, .phase = "backward"};
const mesh::Group everyone{"data", {0, 1, 2}};

std::atomic<int> report_requests = 0;
std::filesystem::path flights;

void compute() { std::this_thread::sleep_for(30s); }

// Waits until a rank has written the file.
void wait_for(const std::filesystem::path& file) {
  const auto began = std::chrono::steady_clock::now();
  while (!std::filesystem::exists(file) && std::chrono::steady_clock::now() - began < 5s) {
    std::this_thread::sleep_for(1ms);
  }
}

std::filesystem::path waits_file(int64_t rank) { return flights / fmt::format("rank_{}_waits", rank); }

// All ranks make a first call; then rank 1 does something else and the others wait for it in their second call. Rank 1
// waits until they have made it: on a busy machine the others may still be in the first call when rank 1 has left it.
void others_wait(World& world, const std::function<void(Comm&)>& rank_1) {
  const auto comm = world.connect(everyone);
  comm->barrier({"start"}).wait();
  if (world.rank() == 1) {
    wait_for(waits_file(0));
    wait_for(waits_file(2));
    return rank_1(*comm);
  }
  float data[8] = {};
  Work work = comm->all_reduce(data, 8, Type::fp32, label);
  std::ofstream(waits_file(world.rank())) << 1;
  work.wait();
}

// The others wait longer than the time-out, and do not give up.
void others_wait_without_limit(World& world, const std::function<void()>& rank_1) {
  const auto comm = world.connect(everyone);
  comm->lift_time_limit();
  if (world.rank() == 1) rank_1();
  comm->barrier({"save"}).wait();
}

// Rank 0 gives up a receive and reuses the memory; then the message arrives. A buffer with an owner is kept.
void sends_too_late(World& world) {
  const auto comm = world.connect(everyone);
  const auto numbers = world.connect({"numbers", {0, 1, 2}});
  std::vector<int64_t> data(100, 5);
  if (world.rank() == 1) {
    int64_t own_process = getpid();
    comm->send(&own_process, 1, Type::int64, 0, {"process"}).wait();
    raise(SIGSTOP);
    const Work first = comm->send(data.data(), 100, Type::int64, 0, label);
    std::fprintf(stderr, "rank 1 has sent\n");
    std::ofstream(flights / "sent") << 1;
    const Work second = numbers->send(data.data(), 100, Type::int64, 0, label);
    return compute();
  }
  if (world.rank() == 2) return compute();
  int64_t process_id = 0;
  comm->receive(&process_id, 1, Type::int64, 1, {"process"}).wait();
  auto owned = std::make_shared<std::vector<int64_t>>(100, 0);
  const std::weak_ptr<std::vector<int64_t>> owner = owned;
  try {
    Work into_owned = numbers->receive(owned->data(), 100, Type::int64, 1, label, owned);
    owned.reset();
    comm->receive(data.data(), 100, Type::int64, 1, label).wait();
  } catch (const CommError&) {
    std::ranges::fill(data, 7);
    kill(static_cast<pid_t>(process_id), SIGCONT);
    // On a busy machine it takes a while until rank 1 computes again.
    wait_for(flights / "sent");
    std::this_thread::sleep_for(500ms);
    const bool unchanged = std::ranges::all_of(data, [](int64_t number) { return number == 7; });
    std::fprintf(stderr, "the buffer is %s; the owner %s\n", unchanged ? "unchanged" : "changed",
                 owner.expired() ? "is gone" : "lives");
    throw;
  }
}

const std::map<std::string, std::function<void(World&)>> ways = {
    {"computes", [](World& world) { others_wait(world, [](Comm&) { compute(); }); }},
    {"is stopped", [](World& world) { others_wait(world, [](Comm&) { raise(SIGSTOP); }); }},
    {"dies", [](World& world) { others_wait(world, [](Comm&) { raise(SIGKILL); }); }},
    {"dies while others compute",
     [](World& world) {
       const auto comm = world.connect(everyone);
       comm->barrier({"start"}).wait();
       if (world.rank() == 1) raise(SIGKILL);
       compute();
     }},
    {"aborts",
     [](World& world) {
       others_wait(world, [&](Comm&) {
         world.abort("the disk is full");
         throw CommError("the disk is full");
       });
     }},
    // The exception destroys a call of its own.
    {"throws with a call under way",
     [](World& world) {
       others_wait(world, [&](Comm& comm) {
         try {
           std::vector<float> data(100000);
           const Work work = comm.receive(data.data(), 100000, Type::fp32, 2, label);
           throw std::runtime_error("no bread");
         } catch (const std::runtime_error& error) {
           world.abort(fmt::format("rank 1 failed: {}", error.what()));
           throw;
         }
       });
     }},
    {"takes long",
     [](World& world) {
       others_wait_without_limit(world, [] { std::this_thread::sleep_for(4s); });
       std::fprintf(stderr, "rank %d goes on\n", static_cast<int>(world.rank()));
     }},
    {"takes long and dies",
     [](World& world) {
       others_wait_without_limit(world, [] {
         std::this_thread::sleep_for(2s);
         raise(SIGKILL);
       });
     }},
    {"takes long and is stopped", [](World& world) { others_wait_without_limit(world, [] { raise(SIGSTOP); }); }},
    {"sends too late", sends_too_late},
    {"throws", [](World& world) { others_wait(world, [](Comm&) { throw std::runtime_error("no bread"); }); }},
    {"ends", [](World& world) { others_wait(world, [](Comm&) {}); }},
    {"disagrees",
     [](World& world) {
       others_wait(world, [](Comm& comm) {
         float data[9] = {};
         comm.all_reduce(data, 9, Type::fp32, label).wait();
       });
     }},
    {"receives",
     [](World& world) {
       others_wait(world, [](Comm& comm) {
         float data = 0;
         comm.receive(&data, 1, Type::fp32, 2, {"activations"}).wait();
       });
     }},
    {"is waited for by one that is waited for",
     [](World& world) {
       const auto left = world.rank() == 1 ? nullptr : world.connect({"left", {0, 2}});
       const auto right = world.rank() == 0 ? nullptr : world.connect({"right", {1, 2}});
       if (world.rank() == 1) return compute();
       float data[8] = {};
       if (world.rank() == 0) left->all_reduce(data, 8, Type::fp32, label).wait();
       // This lets the first rank give up first.
       std::this_thread::sleep_for(500ms);
       right->all_reduce(data, 8, Type::fp32, label).wait();
     }},
    {"asks for reports",
     [](World& world) {
       const auto comm = world.connect(everyone);
       comm->barrier({"start"}).wait();
       if (world.rank() == 1) ++report_requests;
       // The others compute until all have written their last calls, and then the run continues.
       for (const char* rank : {"0", "1", "2"}) {
         const auto flight = flights / fmt::format("flight_rank_00{}.json", rank);
         while (!std::filesystem::exists(flight)) std::this_thread::sleep_for(1ms);
       }
       comm->barrier({"end"}).wait();
     }},
    {"never connects",
     [](World& world) {
       if (world.rank() == 1) return compute();
       world.connect(everyone);
     }},
};

// The ways to fail that run without shared memory.
const std::set<std::string> by_messages = {"sends too late"};

// Calls are compared first, except where the name ends in "unchecked".
int run(std::string way, const std::string& flight_folder) {
  const std::string unchecked = " unchecked";
  const bool checks = !way.ends_with(unchecked);
  if (!checks) way.resize(way.size() - unchecked.size());
  // terrace train ends by itself on SIGTERM, which mpirun sends to the ranks that are left.
  signal(SIGTERM, SIG_IGN);
  flights = flight_folder;
  try {
    const MpiLimits limits = by_messages.contains(way) ? MpiLimits{.ring_members = 0} : MpiLimits{};
    const auto world = make_mpi_world(start_mpi(),
                                      {.timeout_seconds = way == "ends" ? 20.0 : 1.0,
                                       .check_calls = checks,
                                       .flight_folder = flight_folder,
                                       .report_requests = &report_requests},
                                      limits);
    ways.at(way)(*world);
    return 0;
  } catch (const CommError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(ExitCode::peer_failed);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace terrace::comm

int main(int, char** argv) { return terrace::comm::run(argv[1], argv[2]); }
