// Collects the facts as text, so that a message can show them.
#include "terrace/run/start_facts.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <filesystem>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/version.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/config/key_values.h"
#include "terrace/data/data_of_family.h"
#include "terrace/nn/precision.h"
#include "terrace/ops/attention/attention.h"
#include "terrace/ops/products/products.h"
#include "terrace/run/run_training.h"
#include "terrace/train/device.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;

// The value, or the error that reading it gives.
template <typename Read>
std::string value_or_error(Read&& read) {
  try {
    return read();
  } catch (const std::exception& error) {
    return fmt::format("unreadable ({})", error.what());
  }
}

std::string checksum_of(const fs::path& path) { return checksum(MappedFile(path).bytes()); }

// Two builds of one version may differ, so the checksum of the executable is a part of it.
std::string program() { return fmt::format("terrace {}, build {}", version(), checksum_of("/proc/self/exe")); }

std::string kernels(const config::Config& config) {
  const at::Device device = train::choose_device(config.train.device);
  const at::ScalarType type = nn::scalar_type(config.train.precision);
  return fmt::format("torch {} on {} with {} instructions, products by {}, attention by {}", TORCH_VERSION,
                     c10::DeviceTypeName(device.type(), true), at::get_cpu_capability(),
                     ops::products_instructions(device, type, ops::Products::own), ops::attention_instructions(device));
}

}  // namespace

train::StartFacts program_facts(const config::Config& config) {
  train::StartFacts facts = config::key_values(config);
  facts.emplace_back("the program", value_or_error(program));
  facts.emplace_back("the choice of kernels", value_or_error([&] { return kernels(config); }));
  return facts;
}

train::StartFacts file_facts(const config::Config& config) { return data::data_of_family(config).file_facts(config); }

train::StartFacts initial_weights_facts(const config::Config& config) {
  const std::string& path = config.train.initial_weights;
  if (path.empty()) return {};
  return {{fmt::format("the content of train.initial_weights \"{}\"", path),
           value_or_error([&] { return checksum_of(checkpoint::resolve(path) / checkpoint::manifest_name); })}};
}

train::StartFacts start_facts(const config::Config& config, const RunOptions& options) {
  train::StartFacts facts = program_facts(config);
  facts.emplace_back("--resume", options.resume.empty() ? "not given" : options.resume);
  facts.emplace_back("--profile", options.profile_steps == 0 ? "not given" : std::to_string(options.profile_steps));
  return facts;
}

void check_same_start(comm::Comm& all, int64_t ranks_per_node, const config::Config& config,
                      const RunOptions& options) {
  train::check_same(all, start_facts(config, options));
  train::check_same_files(all, ranks_per_node, [&] { return file_facts(config); });
}

}  // namespace terrace::run
