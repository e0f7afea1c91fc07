// Knows what other training programs call our keys.
#pragma once

#include <string>
#include <string_view>

namespace terrace::config {

// The full name of our key, such as "train.global_batch" for "batch_size"; "" for words that no other program uses.
// `name` may be written with hyphens or in capitals.
std::string own_name_of(std::string_view name);

}  // namespace terrace::config
