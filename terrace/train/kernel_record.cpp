// Writes, reads and compares the record of what a run computes with.
#include "terrace/train/kernel_record.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <fstream>

#include "terrace/ops/products.h"

namespace terrace::train {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

Json kernel_record(const KernelFacts& facts) {
  const bool own_attention = facts.choice.attention == ops::AttentionChoice::fastest;
  return {{"threads", facts.threads},
          {"micro_batch", facts.micro_batch},
          {"ranks", facts.ranks},
          {"device", facts.device.str()},
          {"processor", processor_name()},
          {"vector_instructions", at::get_cpu_capability()},
          {"products", ops::products_instructions(facts.device, facts.type, facts.choice.products)},
          {"attention", own_attention ? ops::attention_instructions(facts.device) : "torch"},
          {"onednn", at::globalContext().userEnabledMkldnn()},
          {"torch", TORCH_VERSION}};
}

ops::KernelChoice recorded_choice(const Json& record) {
  ops::KernelChoice choice;
  if (record.value("products", "torch") == "torch") choice.products = ops::Products::torch;
  if (record.value("attention", "torch") == "torch") choice.attention = ops::AttentionChoice::torch;
  return choice;
}

std::string kernel_differences(const Json& saved, const Json& now) {
  std::string text;
  for (const auto& [key, value] : now.items()) {
    const Json before = saved.contains(key) ? saved[key] : Json();
    if (before != value)
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", key, before.dump(), value.dump());
  }
  return text;
}

}  // namespace terrace::train
