// A model's folder in Hugging Face's layout: config.json and safetensors, in one file or in several files with an
// index.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/checkpoint/safetensors.h"

namespace terrace::checkpoint {

class HfFolder {
 public:
  // Opens config.json and every file of weights. Throws UserError that names the file and the problem. Python pickles
  // (.bin, .pt) can run code when they are opened, so they are refused, with the way to convert them.
  explicit HfFolder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  const Json& config() const { return config_; }
  std::vector<std::string> names() const;  // of all tensors, sorted
  bool has(const std::string& name) const { return locations_.contains(name); }
  // Whether a file of the folder is one of those with its weights, their index or config.json.
  bool reads(const std::string& file) const;
  // A view of the mapped file: it is read-only and must not outlive this object.
  at::Tensor tensor(const std::string& name) const;

 private:
  struct TensorLocation {
    const SafetensorsFile* file;
    const SafetensorsEntry* entry;
  };

  void open_single();
  void open_indexed();
  void add_file(const std::string& name);

  std::filesystem::path path_;
  Json config_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, TensorLocation> locations_;
};

// The files of such a folder.
struct HfContents {
  std::vector<std::pair<std::string, std::string>> texts;   // file name and content
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // into model.safetensors
};

// Writes the folder atomically: under a temporary name beside it, which is synced and renamed. Throws UserError where
// `folder` exists and is not empty, and where a write fails.
void write_hf_folder(const std::filesystem::path& folder, const HfContents& contents);

}  // namespace terrace::checkpoint
