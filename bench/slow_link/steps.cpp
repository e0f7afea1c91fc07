// Ranks of a launch that keep several trainers, which bench/slow_link/compare.py asks for steps in turns. Takes lines
// of JSON on the first rank's standard input and answers each with a line "@ answer JSON":
//   {"do": "add", "name": "zero3", "settings": ["layout.sharding=zero3"]}  makes a trainer on all ranks; its first step
//   {"do": "add", "name": "compute", "settings": [], "apart": true}        one on each rank, without the others
//   {"do": "add", "name": "waiting", "settings": [], "waits": true}        one whose ranks wait for each call at once
//   {"do": "go", "name": "zero3", "steps": 5}                              one step, then so many that are measured
//   {"do": "repeat", "name": "zero3"}                                      the calls of these steps, by themselves
// The settings of the command line hold for all trainers. Ends with its standard input.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "bench/layouts/bench_run.h"
#include "bench/layouts/recorded_calls.h"
#include "terrace/base/text/json.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace {

using namespace terrace;
using Clock = std::chrono::steady_clock;

constexpr int64_t vocabulary = 2048;

double seconds_since(Clock::time_point when) { return std::chrono::duration<double>(Clock::now() - when).count(); }

// Bytes that left this network namespace over its links.
int64_t bytes_out() {
  int64_t sum = 0;
  for (const auto& link : std::filesystem::directory_iterator("/sys/class/net")) {
    int64_t bytes = 0;
    std::ifstream(link.path() / "statistics/tx_bytes") >> bytes;
    if (link.path().filename() != "lo") sum += bytes;
  }
  return sum;
}

struct Row {
  std::unique_ptr<bench::RecordingWorld> world;  // null: every rank trains by itself
  std::unique_ptr<train::Trainer> trainer;
  int64_t steps = 0;  // of the last "go"
};

class Rows {
 public:
  Rows(std::vector<std::string> settings, comm::World& world)
      : settings_(std::move(settings)), world_(world), all_(world.connect(mesh::all_ranks("bench", world.size()))) {}

  // The next line of the first rank's standard input, on every rank; empty at its end.
  std::string next_line() {
    std::string line;
    if (world_.rank() == 0) std::getline(std::cin, line);
    auto size = static_cast<int64_t>(line.size());
    all_->broadcast(&size, 1, comm::Type::int64, 0, {.what = "size"}).wait();
    line.resize(static_cast<size_t>(size));
    if (size > 0) all_->broadcast(line.data(), size, comm::Type::uint8, 0, {.what = "line"}).wait();
    return line;
  }

  Json answer(const Json& asked) {
    const std::string what = asked.at("do"), name = asked.at("name");
    if (what == "add") return add(rows_[name], asked);
    return what == "go" ? go(rows_.at(name), asked.at("steps")) : repeat(rows_.at(name));
  }

 private:
  Json add(Row& row, const Json& asked) {
    std::vector<std::string> overrides = settings_;
    for (const std::string setting : asked.at("settings")) overrides.push_back(setting);
    const auto waits = asked.value("waits", false) ? bench::Waits::at_once : bench::Waits::where_needed;
    if (!asked.value("apart", false)) row.world = std::make_unique<bench::RecordingWorld>(world_, waits);
    row.trainer = std::make_unique<train::Trainer>(bench::config_of(folder_, vocabulary, overrides), train::Peak{},
                                                   ops::KernelChoice{}, row.world.get());
    return {{"loss", row.trainer->step().metrics.loss}};
  }

  Json go(Row& row, int64_t steps) {
    const int64_t before = quiet_link();
    row.trainer->step();
    if (row.world) row.world->forget_calls();
    row.steps = steps;
    Json seconds = Json::array();
    double loss = 0;
    for (int64_t i = 0; i < steps; ++i) {
      const auto began = Clock::now();
      loss = row.trainer->step().metrics.loss;
      seconds.push_back(seconds_since(began));
    }
    const int64_t after = quiet_link();
    Json answer = {
        {"seconds", seconds}, {"loss", loss}, {"sent", (after - before) / (steps + 1)}, {"groups", Json::object()}};
    std::vector<std::string> names;
    std::vector<double> waited;
    for_groups(row, [&](const bench::GroupCalls& group) {
      comm::Traffic sum;
      for (int kind = 0; kind < comm::num_kinds; ++kind) {
        const comm::Traffic& traffic = group.outer->traffic(static_cast<comm::Kind>(kind));
        sum.bytes += traffic.bytes;
        sum.exposed_seconds += traffic.exposed_seconds;
      }
      answer["groups"][group.name] = {{"bytes", sum.bytes / steps}, {"ranks", group.inner->group().ranks}};
      names.push_back(group.name);
      waited.push_back(sum.exposed_seconds / static_cast<double>(steps * world_.size()));
    });
    // The mean over the ranks: of two that meet in a call, the earlier one waits for the other.
    const auto count = static_cast<int64_t>(waited.size());
    if (count > 0) all_->all_reduce(waited.data(), count, comm::Type::fp64, {.what = "seconds"}).wait();
    for (size_t i = 0; i < names.size(); ++i) answer["groups"][names[i]]["waited"] = waited[i];
    return answer;
  }

  Json repeat(Row& row) {
    Json answer = Json::object();
    meet();
    for_groups(row,
               [&](const bench::GroupCalls& group) { answer[group.name] = bench::alone_seconds(group, row.steps); });
    return answer;
  }

  template <typename Visit>
  static void for_groups(const Row& row, const Visit& visit) {
    if (!row.world) return;
    for (const auto& group : row.world->groups()) {
      if (!group->calls.empty()) visit(*group);
    }
  }

  // The bytes that have left this node when all ranks are here and nothing is under way any more. Updated weights move
  // on after the end of a step.
  int64_t quiet_link() {
    meet();
    int64_t bytes = bytes_out();
    for (int64_t last = -1; bytes != last;) {
      last = bytes;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      bytes = bytes_out();
    }
    meet();
    return bytes;
  }

  void meet() { all_->barrier({.what = "begin"}).wait(); }

  const bench::Folder folder_;
  const std::vector<std::string> settings_;
  comm::World& world_;
  const std::unique_ptr<comm::Comm> all_;
  std::map<std::string, Row> rows_;
};

}  // namespace

int main(int count, char** arguments) {
  spdlog::set_level(spdlog::level::warn);
  train::prepare_machine(1);
  const auto world = comm::make_mpi_world(comm::WorldOptions{});
  Rows rows({arguments + 1, arguments + count}, *world);
  for (std::string line = rows.next_line(); !line.empty(); line = rows.next_line()) {
    const Json answer = rows.answer(Json::parse(line));
    if (world->rank() == 0) fmt::print("@ answer {}\n", answer.dump());
    std::fflush(stdout);
  }
  return 0;
}
