// A small training state for the tests of checkpoints, and its reading back.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/models/planned_families.h"

namespace terrace::checkpoint {

inline config::Config sample_config() {
  return config::parse(R"(
[model]
layers = 2
width = 8
heads = 2
sequence = 16
vocabulary = 40
[data]
train = ["corpus"]
[train]
global_batch = 4
steps = 10
[optimizer]
learning_rate = 0.001
[checkpoint]
folder = "runs/sample"
)",
                       "sample.toml", models::planned_families());
}

inline NamedTensor replicated(const std::string& name, const at::Tensor& tensor) {
  return {name, tensor, ParamMark::replicated(tensor.sizes().vec())};
}

// Rows `offset` and following of a parameter of `rows` rows, cut over the axis "tp".
inline NamedTensor row_slice(const std::string& name, const at::Tensor& tensor, int64_t offset, int64_t rows) {
  std::vector<int64_t> global = tensor.sizes().vec();
  global[0] = rows;
  ParamMark mark = ParamMark::sharded(std::move(global), 0, "tp");
  mark.row_ranges = {{.begin = offset, .size = tensor.size(0)}};
  return {name, tensor, std::move(mark)};
}

// Rows `row` and following of a whole parameter, as a range of its elements.
inline NamedTensor row_range(const std::string& name, const at::Tensor& whole, int64_t row, int64_t rows) {
  const int64_t row_elements = whole.numel() / whole.size(0);
  NamedTensor part = replicated(name, whole);
  part.range = {row * row_elements, (row + rows) * row_elements, whole.sizes().vec()};
  part.tensor = whole.narrow(0, row, rows).reshape({-1});
  return part;
}

// A Weyl sequence that starts elsewhere for each salt, so that tensors of one shape differ.
inline at::Tensor sample_values(std::vector<int64_t> shape, double salt) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  const at::Tensor index = at::arange(elements, at::kDouble);
  return index.add(salt * 1000.0).mul(0.6180339887498949).frac().to(at::kFloat).reshape(shape);
}

inline State sample_state(int64_t step, double salt = 0.0) {
  State state;
  state.step = step;
  double collection_salt = salt;
  for (const char* collection : {"weights", "optimizer_m", "optimizer_v"}) {
    collection_salt += 10.0;
    state.collections.push_back({collection,
                                 {replicated("embedding.weight", sample_values({40, 8}, collection_salt)),
                                  row_slice("blocks.0.qkv.weight", sample_values({24, 8}, collection_salt + 1), 0, 24),
                                  replicated("blocks.0.norm.weight", sample_values({8}, collection_salt + 2))}});
  }
  state.trainer = {{"samples", step * 4}, {"salt", salt}, {"zeta", 1}, {"alpha", {0.1, 1e-300, -7}}};
  state.config = sample_config();
  return state;
}

// A state with the same names, marks and types and other memory, to read into.
inline State empty_like(const State& state) {
  State empty = state;
  for (Collection& collection : empty.collections) {
    for (NamedTensor& named : collection.tensors)
      named.tensor = at::empty(named.tensor.sizes(), named.tensor.options()).fill_(-9);
  }
  return empty;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

inline void expect_reads_back(const std::filesystem::path& checkpoint, const State& expected) {
  const Reader reader(checkpoint);
  EXPECT_EQ(reader.step(), expected.step);
  EXPECT_EQ(reader.trainer().dump(), expected.trainer.dump());
  EXPECT_EQ(reader.config(models::planned_families()), expected.config);
  const State found = empty_like(expected);
  for (size_t g = 0; g < expected.collections.size(); ++g) {
    reader.read(found.collections[g]);
    for (size_t t = 0; t < expected.collections[g].tensors.size(); ++t) {
      EXPECT_TRUE(same_bits(found.collections[g].tensors[t].tensor, expected.collections[g].tensors[t].tensor))
          << expected.collections[g].tensors[t].name;
    }
  }
}

template <typename Action>
std::string user_error(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// Everything in the folder but the lock.
inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  names.erase(".lock");
  return names;
}

}  // namespace terrace::checkpoint
