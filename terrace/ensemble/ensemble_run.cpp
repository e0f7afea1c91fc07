// Runs members on all places, then a thread for each place that runs its members one after another.
#include "terrace/ensemble/ensemble_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/base/system/child_process.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/system/launch_command.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/config.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/prediction.h"

namespace terrace::ensemble {
namespace {

using std::filesystem::path;

// The time that members which are to stop may take for writing a checkpoint.
constexpr double stop_seconds = 120;
constexpr auto look_every = std::chrono::milliseconds(250);

path run_of(const path& folder, const Member& member) { return folder / member.name; }
path config_of(const path& folder, const Member& member) { return folder / (member.name + ".toml"); }
path log_of(const path& folder, const Member& member) { return folder / (member.name + ".log"); }
path state_of(const path& folder) { return folder / "ensemble.json"; }

// The values of a variable that limits the devices of a child, one for each rank.
std::string device_list(const char* variable, int64_t first, int64_t count) {
  std::vector<std::string> devices;
  if (const char* given = std::getenv(variable)) {
    std::string text = given;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      devices.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::vector<std::string> own;
  for (int64_t i = first; i < first + count; ++i) {
    own.push_back(i < std::ssize(devices) ? devices[static_cast<size_t>(i)] : std::to_string(i));
  }
  return fmt::format("{}={}", variable, fmt::join(own, ","));
}

CoreMask cores_of(const CoreMask& all, int64_t place, int64_t places) {
  const auto count = static_cast<int64_t>(all.count());
  CoreMask own;
  int64_t number = 0;
  for (size_t core = 0; core < all.size(); ++core) {
    if (!all.test(core)) continue;
    if (number * places / count == place) own.set(core);
    ++number;
  }
  return own;
}

// Reads the state that an earlier call left; no value where there was none.
std::optional<Json> earlier_state(const path& folder) {
  if (!std::filesystem::exists(state_of(folder))) return std::nullopt;
  const Json state = parse_json_or_discard(read_text(state_of(folder)));
  if (!state.is_object() || !state.contains("members")) {
    throw UserError::of("{} is no description of an ensemble; name another --output", state_of(folder).string());
  }
  return state;
}

class Training {
 public:
  Training(const std::vector<Member>& members, const EnsembleOptions& options)
      : members_(members), options_(options), of_place_(ranks_of_place(members)) {
    result_.ranks = options.ranks > 0 ? options.ranks : default_ranks(members);
    result_.members.resize(members.size());
    places_ = result_.ranks / of_place_;
  }

  EnsembleResult train() {
    check_ranks();
    std::filesystem::create_directories(options_.folder);
    const FileLock lock(options_.folder / "ensemble.lock",
                        options_.folder.string() + " is being trained by another terrace ensemble");
    read_earlier();
    predict();
    write_configurations();
    write_state();
    ChildProcesses children;
    for (const size_t member : result_.packing.on_all) {
      run_beside_watch({[&, member] { run(children, member, {}); }}, children);
    }
    std::vector<std::function<void()>> works;
    for (int64_t place = 0; place < places_; ++place) {
      works.push_back([&, place] {
        // Children run on the cores of the thread that starts them.
        if (const CoreMask all = core_mask(); static_cast<int64_t>(all.count()) >= places_) {
          bind_to(cores_of(all, place, places_));
        }
        for (const size_t member : result_.packing.on_place[static_cast<size_t>(place)]) run(children, member, place);
      });
    }
    run_beside_watch(works, children);
    write_state();
    return result_;
  }

 private:
  void check_ranks() const {
    if (places_ < 1 || result_.ranks % of_place_ != 0) {
      throw UserError::of("{} for members of which one needs {} (tensor times pipeline); give --ranks {}",
                          counted(result_.ranks, "rank"), of_place_, std::max(places_, int64_t{1}) * of_place_);
    }
  }

  void read_earlier() {
    const std::optional<Json> state = earlier_state(options_.folder);
    for (size_t i = 0; i < members_.size(); ++i) {
      MemberProgress& own = result_.members[i];
      own.steps = members_[i].config.train.steps;
      own.step = last_step(run_of(options_.folder, members_[i]));
      const path file = config_of(options_.folder, members_[i]);
      if (std::filesystem::exists(file)) {
        config::check_resume(config::load(file, models::planned_families()), members_[i].config, own.step);
      }
      if (!state) continue;
      for (const Json& one : state->at("members")) {
        if (one.value("name", "") != members_[i].name) continue;
        if (one.value("state", "") == word_of(MemberState::done) && own.step >= own.steps)
          own.state = MemberState::done;
        own.ranks = one.value("ranks", int64_t{0});
      }
    }
    if (state && state->at("members").size() > members_.size()) {
      throw UserError::of("{} has {} members and this call {}; name another --output, or give the members that it has",
                          state_of(options_.folder).string(), state->at("members").size(), members_.size());
    }
  }

  // The time of a step on so many ranks; no value, with the reason in `problem`, where the layout does not fit them.
  std::optional<double> step_seconds(const Member& member, int64_t ranks, std::string& problem) const {
    plan::Target target = options_.target;
    target.devices = ranks;
    try {
      return plan::predict(member.config, target).step_seconds;
    } catch (const UserError& error) {
      problem = fmt::format("{} ({}) on {}: {}", member.name, member.origin, counted(ranks, "rank"), error.what());
      return std::nullopt;
    }
  }

  void predict() {
    std::vector<double> costs;
    std::vector<bool> may_be_on_all;
    std::vector<std::string> problems;
    for (size_t i = 0; i < members_.size(); ++i) {
      MemberProgress& own = result_.members[i];
      if (own.state == MemberState::done) continue;
      std::string problem;
      const double seconds = step_seconds(members_[i], of_place_, problem).value_or(0);
      if (!problem.empty()) problems.push_back(std::exchange(problem, {}));
      own.predicted_seconds = seconds * static_cast<double>(own.steps);
      to_train_.push_back(i);
      costs.push_back(seconds * static_cast<double>(std::max<int64_t>(own.steps - own.step, 1)));
      may_be_on_all.push_back(places_ > 1 && step_seconds(members_[i], result_.ranks, problem).has_value());
    }
    if (!problems.empty()) throw UserError(fmt::format("{}", fmt::join(problems, "\n")));
    PackedMembers packing = pack(costs, places_, may_be_on_all);
    const auto whole_numbers = [&](std::vector<size_t>& list) {
      for (size_t& number : list) number = to_train_[number];
    };
    whole_numbers(packing.on_all);
    for (std::vector<size_t>& list : packing.on_place) whole_numbers(list);
    result_.packing = std::move(packing);
  }

  void write_configurations() const {
    for (const size_t member : to_train_) {
      write_text_atomically(config_of(options_.folder, members_[member]), config::dump(members_[member].config));
    }
  }

  // The command that trains a member on one place, or on all places where none is given.
  std::vector<std::string> command_of(const Member& member, int64_t ranks, std::optional<int64_t> place) const {
    const std::string file = config_of(options_.folder, member).string();
    std::vector<std::string> command = launch_command(options_.launcher, ranks, {}, {options_.program, "train", file});
    if (place && options_.launcher != "srun") {
      std::vector<std::string> limited = {"env"};
      for (const char* variable : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
        limited.push_back(device_list(variable, *place * of_place_, of_place_));
      }
      command.insert(command.begin(), limited.begin(), limited.end());
    }
    command.insert(command.end(), {"--resume", "auto"});
    if (member.config.train.threads == 0 && options_.launcher != "srun") {
      const int64_t threads = std::max<int64_t>(1, usable_cores() / result_.ranks);
      command.insert(command.end(), {"--set", fmt::format("train.threads={}", threads)});
    }
    return command;
  }

  void run(ChildProcesses& children, size_t number, std::optional<int64_t> place) {
    if (options_.stops && options_.stops()) return;
    const Member& member = members_[number];
    const int64_t ranks = place ? of_place_ : result_.ranks;
    update(number, [&](MemberProgress& own) {
      own.state = MemberState::running;
      own.ranks = ranks;
    });
    const path log = log_of(options_.folder, member);
    MemberState state = MemberState::failed;
    std::string reason;
    try {
      const ChildEnd end = children.run(command_of(member, ranks, place), log, {.grace_seconds = stop_seconds});
      const bool exited = end.how == ChildEnd::How::exited;
      if (end.how == ChildEnd::How::ended || (exited && end.code == static_cast<int>(ExitCode::stopped))) {
        state = MemberState::stopped;
      } else if (end.succeeded()) {
        state = MemberState::done;
      } else {
        reason = fmt::format("{} {}: {}", exited ? "ended with exit code" : "was killed by signal", end.code,
                             end_of_output(log));
      }
    } catch (const std::exception& error) {
      reason = error.what();
    }
    update(number, [&](MemberProgress& own) {
      own.state = state;
      own.reason = reason;
      own.step = last_step(run_of(options_.folder, member));
    });
  }

  template <typename Change>
  void update(size_t number, const Change& change) {
    const std::lock_guard lock(mutex_);
    change(result_.members[number]);
    changed_ = true;
  }

  // Runs each work in a thread of its own, while this thread reports progress.
  void run_beside_watch(const std::vector<std::function<void()>>& works, ChildProcesses& children) {
    std::atomic<size_t> left = works.size();
    std::vector<std::jthread> threads;
    for (const std::function<void()>& work : works) {
      threads.emplace_back([&left, &work] {
        work();
        --left;
      });
    }
    while (left > 0) {
      std::this_thread::sleep_for(look_every);
      if (options_.stops && options_.stops()) {
        result_.stopped = true;
        children.end_all();
      }
      look();
    }
    look();
  }

  void look() {
    std::vector<MemberProgress> now;
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < members_.size(); ++i) {
        MemberProgress& own = result_.members[i];
        if (own.state == MemberState::running) own.step = last_step(run_of(options_.folder, members_[i]));
      }
      now = result_.members;
      changed = std::exchange(changed_, false);
    }
    if (changed) write_state();
    if (options_.progress) options_.progress(now);
  }

  void write_state() {
    const std::lock_guard lock(mutex_);
    write_text_atomically(state_of(options_.folder), json_of(members_, result_).dump(2) + "\n");
  }

  const std::vector<Member>& members_;
  const EnsembleOptions& options_;
  int64_t of_place_, places_ = 0;
  std::vector<size_t> to_train_;
  std::mutex mutex_;  // of what follows, while threads run
  EnsembleResult result_;
  bool changed_ = false;
};

}  // namespace

std::string_view word_of(MemberState state) {
  switch (state) {
    case MemberState::waiting:
      return "waiting";
    case MemberState::running:
      return "running";
    case MemberState::done:
      return "done";
    case MemberState::stopped:
      return "stopped";
    case MemberState::failed:
      break;
  }
  return "failed";
}

int64_t ranks_of_place(const std::vector<Member>& members) {
  int64_t most = 1;
  for (const Member& member : members) {
    most = std::max(most, member.config.layout.ranks_of_samples());
  }
  return most;
}

int64_t default_ranks(const std::vector<Member>& members) {
  int64_t threads = 1;
  for (const Member& member : members) threads = std::max(threads, member.config.train.threads);
  const int64_t of_place = ranks_of_place(members);
  const int64_t places = std::clamp<int64_t>(usable_cores() / (threads * of_place), 1, std::ssize(members));
  return places * of_place;
}

EnsembleResult train_ensemble(const std::vector<Member>& members, const EnsembleOptions& options) {
  return Training(members, options).train();
}

Json json_of(const std::vector<Member>& members, const EnsembleResult& result) {
  Json list = Json::array();
  for (size_t i = 0; i < members.size(); ++i) {
    const MemberProgress& own = result.members[i];
    Json one = {{"name", members[i].name},
                {"origin", members[i].origin},
                {"folder", members[i].config.checkpoint.folder},
                {"state", word_of(own.state)},
                {"step", own.step},
                {"steps", own.steps},
                {"ranks", own.ranks},
                {"predicted_seconds", own.predicted_seconds}};
    if (!own.reason.empty()) one["reason"] = own.reason;
    list.push_back(std::move(one));
  }
  return {{"ranks", result.ranks}, {"greatest_over_mean", result.packing.greatest_over_mean()}, {"members", list}};
}

int64_t last_step(const std::filesystem::path& run) {
  std::ifstream file(run / "metrics.jsonl", std::ios::binary | std::ios::ate);
  if (!file) return 0;
  constexpr std::streamoff tail = 8192;
  const std::streamoff size = file.tellg(), begin = std::max<std::streamoff>(0, size - tail);
  std::string text(static_cast<size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), std::ssize(text));
  int64_t step = 0;
  for (size_t at = begin == 0 ? 0 : text.find('\n') + 1; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const Json line = parse_json_or_discard(std::string_view(text).substr(at, end - at));
    if (line.is_object()) step = std::max(step, line.value("step", int64_t{0}));
    at = end + 1;
  }
  return step;
}

}  // namespace terrace::ensemble
