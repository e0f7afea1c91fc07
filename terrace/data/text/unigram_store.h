// Unigram losses that were computed from a corpus, kept in a file beside it so that no start of a run computes one
// twice.
#pragma once

#include <filesystem>
#include <optional>

#include "terrace/base/text/json.h"

namespace terrace::data {

// Returns PREFIX.unigram.json of a corpus by the path of its .bin: the last few losses, each with all that it depends
// on.
std::filesystem::path unigram_path(const std::filesystem::path& bin);

// Returns the loss for this key; none where the file is missing or damaged, or holds no such loss.
std::optional<double> stored_unigram_loss(const std::filesystem::path& file, const Json& key);

// Returns whether a file can be made in the folder, as far as that can be known before there is something to write.
bool can_store_beside(const std::filesystem::path& file);

// Stores a loss. Any number of processes, on any number of machines that share the folder, may store at once: the file
// is replaced whole. Of losses stored at the same time one may be lost and is computed again. What cannot be written,
// as on a full disk, is not kept.
void store_unigram_loss(const std::filesystem::path& file, const Json& key, double loss);

}  // namespace terrace::data
