// Divides structures among training, validation and test, so that groups stay together.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace::data {

// Returns the part of each structure: 0, 1 or 2. Structures of one group, which is any number, lie in one part. Groups
// are drawn in an order that depends on the seed alone; each goes to the part that lacks most structures of its share
// (ties: the earlier part), and the last groups to parts that would else be empty. With groups of one structure the
// parts have their shares to the structure. `shares` are at least 0 and their sum is 1. Throws UserError that names the
// numbers where a part with a share gets no structure.
std::vector<uint8_t> divide_structures(std::span<const uint64_t> groups, const std::array<double, 3>& shares,
                                       uint64_t seed);

}  // namespace terrace::data
