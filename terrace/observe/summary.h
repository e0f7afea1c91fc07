// Sums up a finished or running training from its folder: the curve and the figures, as text for a terminal.
#pragma once

#include <filesystem>
#include <string>

#include "terrace/base/text/json.h"

namespace terrace::observe {

// Reads metrics.jsonl and run.json of the run's folder. Throws UserError where the folder holds no run.
// Keys: steps, loss, learning_rate (of the last step), gradient_norm (mean of the last steps), validation_loss,
// validation_loss_by_dataset (empty where there is one dataset), what the family counts, such as tokens, and its rate,
// tokens_per_second (median step), step_seconds, mfu, peak_name, peak_flops_per_second, memory_bytes (peak),
// parameters, folder, folder_bytes (the sum over files), files (list of path and bytes); the family's figures, of
// training, with validation_ in front, and where there are several datasets as objects validation_FIGURE_by_dataset;
// where outputs have depended on no input in the last steps, dead_outputs (list of names); figures (list of name, unit
// and which is better); its baselines, such as unigram_loss; where steps measured the gradient noise scale, noise_scale
// (the last one, in samples), noise_scale_step and noise_scale_text, a sentence without its end.
Json summarize_run(const std::filesystem::path& folder);

// The loss curve and those figures, as lines; of the files only the folder, their total size and their number. A run
// whose step was predicted and measured also has the table of both (step_comparison.h).
std::string draw_summary(const std::filesystem::path& folder);

// A heading, then a line for each file of the run's folder: its size and its path. Throws as summarize_run does.
std::string draw_files(const std::filesystem::path& folder);

}  // namespace terrace::observe
