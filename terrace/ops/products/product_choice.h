// Chooses the kernels that compute the matrix products of each class of weights on a CPU. Ours and torch's are both
// exact to rounding; the choice decides the last bits.
#pragma once

#include <c10/util/ArrayRef.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace terrace::ops {

enum class Products {
  torch,
  own,  // our kernels where the processor has the instructions for the type, torch's elsewhere
  // Decoding, forward only. Where x has one position of each sequence, a row of the product has the same bits whatever
  // the other rows are and however many there are. Prompts are computed as products_for() says.
  decoding,
};

// The kernels of the three products of a weight W.
struct ProductChoice {
  Products forward = Products::own;          // y = x W^T
  Products input_gradient = Products::own;   // dx = dy W
  Products weight_gradient = Products::own;  // dW = dy^T x

  static constexpr ProductChoice all(Products products) { return {products, products, products}; }
  bool operator==(const ProductChoice&) const = default;
};

// The three products by name.
struct NamedProduct {
  std::string_view name;
  Products ProductChoice::*choice = nullptr;
};
inline constexpr std::array<NamedProduct, 3> named_products{{{"forward", &ProductChoice::forward},
                                                             {"input_gradient", &ProductChoice::input_gradient},
                                                             {"weight_gradient", &ProductChoice::weight_gradient}}};

// A weight with at least 8 outputs per input, such as that of a vocabulary, is tall. Any other weight is small, medium
// or large by the smaller one of its two dimensions: below 512, below 2048, from 2048 on.
enum class WeightClass : uint8_t { small, medium, large, tall };

inline constexpr std::array weight_classes{WeightClass::small, WeightClass::medium, WeightClass::large,
                                           WeightClass::tall};
std::string_view name_of(WeightClass weights);

// The class of a weight by the shape [outputs, ..] of the whole parameter, before tensor parallelism cuts it: so every
// rank of every layout computes with the same kernels. All dimensions but the first count as inputs.
WeightClass weight_class_of(c10::IntArrayRef shape);

struct ProductsByClass {
  std::array<ProductChoice, weight_classes.size()> choices = {};

  static ProductsByClass all(Products products);
  ProductChoice& operator[](WeightClass weights) { return choices[static_cast<size_t>(weights)]; }
  const ProductChoice& operator[](WeightClass weights) const { return choices[static_cast<size_t>(weights)]; }
  bool operator==(const ProductsByClass&) const = default;
};

}  // namespace terrace::ops
