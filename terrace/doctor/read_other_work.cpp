// Reads what other processes do on the cores of a rank, from two looks at the kernel's counts of time.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "terrace/base/system/core_list.h"
#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

struct ProcessTime {
  std::string name;
  int64_t parent = 0, ticks = 0, core = -1;
};

struct Look {
  int64_t busy_ticks = 0;  // of the rank's cores, also those that a hypervisor gave to other machines
  std::map<std::string, ProcessTime> processes = {};
};

// The line of /proc/PID/stat (proc_pid_stat(5)). The name in parentheses may have spaces and parentheses itself.
std::optional<ProcessTime> process_of(const std::string& line) {
  constexpr int64_t parent_field = 4, user_field = 14, system_field = 15, core_field = 39;
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessTime program{.name = line.substr(open + 1, close - open - 1)};
  std::istringstream fields(line.substr(close + 1));
  std::string word;
  fields >> word;  // the state
  for (int64_t field = parent_field; field <= core_field && fields >> word; ++field) {
    // Others, such as limits, may have more bits.
    int64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    if (field == parent_field) program.parent = value;
    if (field == user_field || field == system_field) program.ticks += value;
    if (field == core_field) program.core = value;
  }
  return program;
}

// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice"; guests are in user and nice already.
int64_t busy_ticks(const NodeView& view, const CoreMask& cores) {
  constexpr int64_t counted = 8, idle = 3, iowait = 4;
  int64_t sum = 0;
  for (const std::string& line : view.lines("/proc/stat")) {
    if (!line.starts_with("cpu") || line.size() < 4 || std::isdigit(static_cast<unsigned char>(line[3])) == 0) continue;
    std::istringstream fields(line.substr(3));
    size_t core = 0;
    fields >> core;
    if (core >= cores.size() || !cores[core]) continue;
    int64_t ticks = 0;
    for (int64_t field = 0; field < counted && fields >> ticks; ++field) {
      if (field != idle && field != iowait) sum += ticks;
    }
  }
  return sum;
}

Look look_at(const NodeView& view, const CoreMask& cores) {
  Look look{.busy_ticks = busy_ticks(view, cores)};
  for (const std::string& name : view.names("/proc")) {
    if (name.empty() || !std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; })) continue;
    if (auto program = process_of(view.line(std::filesystem::path("/proc") / name / "stat").value_or(""))) {
      look.processes[name] = std::move(*program);
    }
  }
  return look;
}

int64_t ticks_between(const Look& before, const Look& after, const std::string& number) {
  const auto began = before.processes.find(number);
  return after.processes.at(number).ticks - (began == before.processes.end() ? 0 : began->second.ticks);
}

}  // namespace

void read_other_work(const NodeView& view, Readings& readings) {
  const CoreMask cores = cores_of_list(readings.cores.empty() ? readings.node_cores : readings.cores);
  const std::optional<ProcessTime> own = process_of(view.line("/proc/self/stat").value_or(""));
  if (!view.wait_for_work || cores.none() || !own) return;
  const Look before = look_at(view, cores);
  const double seconds = view.wait_for_work();
  const Look after = look_at(view, cores);
  const double ticks_in_all = seconds * static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (ticks_in_all <= 0) return;
  int64_t others = after.busy_ticks - before.busy_ticks, most = 0;
  OtherWork work{.seconds = seconds};
  for (const auto& [number, program] : after.processes) {
    if (program.core < 0 || static_cast<size_t>(program.core) >= cores.size() ||
        !cores[static_cast<size_t>(program.core)])
      continue;
    const int64_t ticks = ticks_between(before, after, number);
    // This process, and the other ranks that the launcher started beside it.
    if (program.parent == own->parent && program.name == own->name) {
      others -= ticks;
    } else if (ticks > most) {
      most = ticks;
      work.busiest = fmt::format("{} (process {})", program.name, number);
    }
  }
  work.cores = std::clamp(static_cast<double>(others) / ticks_in_all, 0.0, static_cast<double>(cores.count()));
  readings.other_work = std::move(work);
}

}  // namespace terrace::doctor
