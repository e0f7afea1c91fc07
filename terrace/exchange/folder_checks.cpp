// Compares a folder with what an import reads of it.
#include "terrace/exchange/folder_checks.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/sum.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/text/generation_config.h"
#include "terrace/exchange/hf_tokenizer.h"

namespace terrace::exchange {
namespace {

namespace fs = std::filesystem;
using models::HfTensor;

// Texts about a model.
bool is_about_the_model(const std::string& name) {
  constexpr std::array<std::string_view, 5> beginnings{".", "README", "LICENSE", "NOTICE", "USE_POLICY"};
  constexpr std::array<std::string_view, 6> endings{".md", ".png", ".jpg", ".jpeg", ".svg", ".pdf"};
  return std::ranges::any_of(beginnings, [&](std::string_view text) { return name.starts_with(text); }) ||
         std::ranges::any_of(endings, [&](std::string_view text) { return name.ends_with(text); });
}

}  // namespace

// The name of the tensor in this folder: models saved without a head omit the leading "transformer." or "model.".
std::string name_in(const checkpoint::HfFolder& folder, const std::string& name) {
  if (folder.has(name)) return name;
  const std::string bare = name.substr(name.find('.') + 1);
  return folder.has(bare) && !name.starts_with("lm_head.") ? bare : "";
}

void check_names(const checkpoint::HfFolder& folder, const std::vector<HfTensor>& layout,
                 const config::Config& config) {
  std::vector<std::string> problems;
  std::set<std::string> known;
  for (const HfTensor& theirs : layout) {
    const std::string name = name_in(folder, theirs.name);
    known.insert(name);
    if (name.empty()) {
      problems.push_back(fmt::format("'{}' is missing", theirs.name));
      continue;
    }
    const at::Tensor found = folder.tensor(name);
    if (found.sizes() != at::IntArrayRef(theirs.shape)) {
      problems.push_back(fmt::format("'{}' has shape [{}], but config.json says [{}]", name,
                                     fmt::join(found.sizes(), ", "), fmt::join(theirs.shape, ", ")));
    } else if (!found.is_floating_point()) {
      problems.push_back(
          fmt::format("'{}' holds {}, not floating-point numbers", name, c10::toString(found.scalar_type())));
    }
  }
  for (const std::string& name : folder.names()) {
    if (known.contains(name) || config.family->exchange->is_hf_buffer(config, name)) continue;
    problems.push_back(fmt::format("'{}' is not a tensor of this model", name));
  }
  if (problems.empty()) return;
  throw UserError::of("the weights in {} are not those of its config.json:\n  {}", folder.path().string(),
                      fmt::join(problems, "\n  "));
}

std::string problem_with_values(const std::string& name, const at::Tensor& values) {
  const int64_t bad = values.numel() - at::isfinite(values).sum().item<int64_t>();
  if (bad == 0) return "";
  const auto nans = at::isnan(values).sum().item<int64_t>();
  return fmt::format("'{}' has {} that {} not finite ({} NaN, {} infinite)", name,
                     counted(static_cast<uint64_t>(bad), "value"), bad == 1 ? "is" : "are", nans, bad - nans);
}

void check_adapters(const checkpoint::HfFolder& folder) {
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
    if (!fs::exists(folder.path() / name)) continue;
    throw UserError::of(
        "{} holds an adapter ({}) beside the weights, which an import would leave out: merge it in Python with "
        "AutoPeftModelForCausalLM.from_pretrained(FOLDER).merge_and_unload().save_pretrained(OTHER), or remove its "
        "files to import the weights without it",
        folder.path().string(), name);
  }
}

std::vector<std::string> unused_files(const checkpoint::HfFolder& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    const bool is_read = folder.reads(name) || name == data::generation_file || files_of_tokenizer().contains(name);
    if (is_read || is_about_the_model(name)) continue;
    names.push_back(entry.is_directory() ? name + "/" : name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace terrace::exchange
