// The initial values of a vision transformer that are no random numbers, and the deviation of those that are.
#pragma once

#include <cstdint>

#include "terrace/nn/module.h"

namespace terrace::models::vit {

constexpr double initial_deviation = 0.02;

// Uniform on both sides of 0 (Glorot and Bengio, 2010).
nn::InitialValue xavier_uniform(int64_t inputs, int64_t outputs);

// A table [.., width] of sines, then cosines, of the row's number over 10,000^(2 i / width).
nn::InitialValue sines_of_index(int64_t width);

// A table [rows * columns, width] of such sines and cosines: in the first half of the width those of the column
// (longitude), in the second half those of the row (latitude).
nn::InitialValue sines_of_place(int64_t columns, int64_t width);

}  // namespace terrace::models::vit
