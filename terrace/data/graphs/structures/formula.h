// The chemical formula of a structure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace terrace::data {

// Returns the symbols with their numbers of atoms in Hill's order, carbon and hydrogen first where there is carbon and
// else all by the alphabet, such as "C2H6O"; "X" stands for nodes that are no atoms. "" for no atoms.
std::string formula_of(std::span<const uint8_t> species);

}  // namespace terrace::data
