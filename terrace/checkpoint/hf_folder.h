// A model's folder in the layout of Hugging Face: config.json and safetensors, in one file or in several with an index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/checkpoint/safetensors.h"

namespace terrace::checkpoint {

class HfFolder {
 public:
  // Opens config.json and every file of weights. Throws UserError naming the file and what is wrong with it; weights as
  // Python pickles (.bin, .pt), which can run code when they are opened, are refused with the way out.
  explicit HfFolder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  const Json& config() const { return config_; }
  std::vector<std::string> names() const;  // of all tensors, sorted
  bool has(const std::string& name) const { return places_.contains(name); }
  // Over the mapped file: for reading only, and not to outlive this object.
  at::Tensor tensor(const std::string& name) const;

 private:
  struct Place {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
  };

  void open_single();
  void open_indexed();
  void add_file(const std::string& name);

  std::filesystem::path path_;
  Json config_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, Place> places_;
};

// What such a folder is made of.
struct HfContents {
  std::vector<std::pair<std::string, std::string>> texts;   // file name and content
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // into model.safetensors
};

// Writes the folder, whole or not at all: under a temporary name beside it, synced, renamed. Throws UserError where
// `folder` exists and is not empty, and where the disk refuses.
void write_hf_folder(const std::filesystem::path& folder, const HfContents& contents);

}  // namespace terrace::checkpoint
