// Exports models to folders that Python's transformers loads, and imports models from such folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "terrace/config/config.h"

namespace terrace::exchange {

struct ExportOptions {
  std::filesystem::path checkpoint;                       // its folder, or a run's: then the newest complete one
  std::filesystem::path output;                           // a folder that does not exist or is empty
  std::filesystem::path tokenizer;                        // empty: the checkpoint's
  config::Precision precision = config::Precision::fp32;  // of the written weights; ours are fp32
};

struct Exported {
  std::filesystem::path checkpoint;
  std::string architecture;  // "GPT2LMHeadModel" or "LlamaForCausalLM"
  int64_t parameters = 0;    // the numbers in the folder's tensors, which have no padded rows
  std::string tokenizer;     // the file's name; "" if there is none
};

// Writes config.json and model.safetensors and, of a family that generates text, generation_config.json, the tokenizer
// and tokenizer_config.json. The folder is written whole or not at all. Throws UserError if transformers has no layout
// for the model.
Exported export_hf(const ExportOptions& options);

struct ImportOptions {
  std::filesystem::path folder;     // with config.json and safetensors
  std::filesystem::path output;     // a folder that does not exist or is empty
  std::filesystem::path tokenizer;  // empty: the folder's
  bool without_tokenizer = false;
};

struct Imported {
  std::filesystem::path checkpoint;  // OUTPUT/step_00000000: weights alone
  std::filesystem::path config;      // OUTPUT/train.toml: a run that starts from these weights
  std::filesystem::path tokenizer;   // OUTPUT/tokenizer.json or .model; empty if there is none
  config::FamilySettings model;      // [model] of the checkpoint's configuration
  int64_t parameters = 0;            // as in Exported
};

// Throws UserError if terrace does not support the model, a tensor or the tokenizer; the output is then removed.
Imported import_hf(const ImportOptions& options);

}  // namespace terrace::exchange
