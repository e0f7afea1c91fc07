// Reads the processor's name and the library's choices.
#include "terrace/train/kernel_record.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <fstream>

#include "terrace/ops/attention.h"

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

Json kernel_record(int64_t threads, int64_t micro_batch, const at::Device& device) {
  return {{"threads", threads},
          {"micro_batch", micro_batch},
          {"device", device.str()},
          {"processor", processor_name()},
          {"vector_instructions", at::get_cpu_capability()},
          {"attention", ops::attention_instructions(device)},
          {"onednn", at::globalContext().userEnabledMkldnn()},
          {"torch", TORCH_VERSION}};
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
