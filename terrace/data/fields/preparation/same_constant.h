// Constants that several files have.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace terrace::data {

// Throws UserError that names both files where the constant of one, `field`, is not that of the other, `known`; what
// rounding leaves is no difference, and neither are places where both are missing.
void check_same_constant(const std::string& name, std::span<const float> field, const std::filesystem::path& file,
                         std::span<const float> known, const std::filesystem::path& of_file);

}  // namespace terrace::data
