// Chooses the stages and the unit, and writes the lines.
#include "terrace/plan/memory/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace terrace::plan {
namespace {

constexpr size_t most_stages = 8;

std::vector<size_t> shown_stages(const Prediction& prediction) {
  const std::vector<StagePrediction>& stages = prediction.stages;
  const auto fullest = static_cast<size_t>(&prediction.fullest() - stages.data());
  std::vector<size_t> shown;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages.size() <= most_stages || stage <= 1 || stage == fullest || stage + 1 == stages.size()) {
      shown.push_back(stage);
    }
  }
  return shown;
}

// The largest unit of which the bytes have at least one.
std::pair<const char*, double> unit_of(double bytes) {
  std::pair<const char*, double> unit = {"B", 1};
  for (const char* name : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes >= 1024 * unit.second) unit = {name, 1024 * unit.second};
  }
  return unit;
}

std::string cell(double amount) {
  if (amount == 0) return "0";
  return amount < 0.05 ? "<0.1" : fmt::format("{:.1f}", amount);
}

}  // namespace

std::string memory_table(const Prediction& prediction, const config::Config& config) {
  const std::vector<size_t> shown = shown_stages(prediction);
  const auto [unit, unit_bytes] = unit_of(prediction.fullest().memory.total());
  const auto line = [&](std::string_view name, const auto& text_of) {
    std::string text = fmt::format("    {:<13}", name);
    for (const size_t stage : shown) text += fmt::format(" {:>6}", text_of(stage));
    return text + "\n";
  };
  std::string text = fmt::format("memory of one device in {}\n", unit);
  if (prediction.stages.size() > 1) text += line("stage", [](size_t stage) { return std::to_string(stage); });
  for (size_t number = 0; number < num_memory_kinds; ++number) {
    const auto kind = static_cast<MemoryKind>(number);
    const auto bytes = [&](size_t stage) { return prediction.stages[stage].memory.of(kind); };
    // Kinds that few layouts have.
    const bool is_usual = kind == MemoryKind::feedback ? config.layout.error_feedback : kind != MemoryKind::movements;
    if (!is_usual && std::ranges::all_of(prediction.stages,
                                         [&](const StagePrediction& stage) { return stage.memory.of(kind) == 0; })) {
      continue;
    }
    text += line(name_of(kind),
                 [&, bytes_in_unit = unit_bytes](size_t stage) { return cell(bytes(stage) / bytes_in_unit); });
  }
  text += line("total", [&, bytes_in_unit = unit_bytes](size_t stage) {
    return cell(prediction.stages[stage].memory.total() / bytes_in_unit);
  });
  if (prediction.fullest().communicator_bytes == 0) return text;
  return text + line("communicators", [&, bytes_in_unit = unit_bytes](size_t stage) {
           return cell(prediction.stages[stage].communicator_bytes / bytes_in_unit);
         });
}

}  // namespace terrace::plan
