// Finds the settings that set runs apart: the keys of their configurations whose values differ.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace terrace::observe {

// The name of a run on pages: its folder without a slash at its end.
std::string run_name(const std::filesystem::path& folder);

// The keys of a run's resolved.toml with their values as short TOML: "optimizer.learning_rate", "0.001". Tables in
// lists have the list's number: "model.outputs.0.weight". Empty where the folder has no such file or it cannot be read.
std::map<std::string, std::string> settings_of(const std::filesystem::path& folder);

// The keys that some runs have with other values than others or not at all, sorted; those of the folder and of what is
// observed are left out, since they do not change the training. A run without settings counts for none.
std::vector<std::string> differing_keys(const std::vector<std::map<std::string, std::string>>& runs);

// The name of each run on a page of several: "runs/a (optimizer.learning_rate = 0.001)". If keys are given, those are
// shown; throws UserError, which names the keys that differ, where no run has one. Otherwise the keys that differ are
// shown if they are at most two, or nothing.
std::vector<std::string> names_by_settings(const std::vector<std::filesystem::path>& folders,
                                           const std::vector<std::string>& keys);

}  // namespace terrace::observe
