// A module owns named parameters and child modules, and nothing else. Models are written with modules, for one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/mesh/param_mark.h"
#include "terrace/ops/kernel_choice.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {
class Ranks;
}

namespace terrace::nn {

// The initial value of a parameter or buffer. The n-th element of the one named N under seed s is a function of (s, N,
// global index n) only, so that every layout starts from the same bits.
struct InitialValue {
  enum class Kind { constant, normal, truncated_normal, uniform, opposite_rows, table };
  // Returns the elements [begin, end) of the flattened whole tensor: 1-D on the CPU, of any floating-point type.
  using Elements = std::function<at::Tensor(int64_t begin, int64_t end)>;

  Kind kind = Kind::constant;
  double value = 0.0;            // the constant, or the standard deviation
  double low = 0.0, high = 0.0;  // the range of `uniform`; of `truncated_normal` in standard deviations
  int64_t columns = 0;           // of `opposite_rows`
  Elements elements = {};        // of `table`

  static InitialValue constant(double value) { return {.value = value}; }
  // A normal distribution with mean 0.
  static InitialValue normal(double deviation) { return {.kind = Kind::normal, .value = deviation}; }
  // A normal distribution with mean 0, cut at so many standard deviations on both sides; see
  // ops::fill_truncated_normal.
  static InitialValue truncated_normal(double deviation, double cut = 2.0) {
    return {.kind = Kind::truncated_normal, .value = deviation, .low = -cut, .high = cut};
  }
  static InitialValue uniform(double low, double high) { return {.kind = Kind::uniform, .low = low, .high = high}; }
  // A matrix in which even rows are uniform from -bound to bound, and each odd row is the opposite of the row before.
  static InitialValue opposite_rows(double bound, int64_t columns) {
    return {.kind = Kind::opposite_rows, .low = -bound, .high = bound, .columns = columns};
  }
  // A function of the index, or a small whole tensor of the parameter's shape, such as sine and cosine positions.
  // Neither depends on the seed.
  static InitialValue table(Elements elements) { return {.kind = Kind::table, .elements = std::move(elements)}; }
  static InitialValue table(const at::Tensor& whole);
};

// One trained tensor. `value` is an autograd leaf in the type in which the model computes, or in fp32. Operations
// accumulate d loss / d value over micro-batches in `gradient`, which has the same shape and the gradient type and is
// undefined until allocate_gradients(). The operations in ops/ add to it themselves; collect_autograd_gradients() adds
// the gradients that autograd accumulated in value.grad().
struct Parameter {
  std::string name;  // global: "blocks.3.attention.qkv.weight"
  at::Tensor value;
  at::Tensor gradient;
  // See ops::Weight. Given for parameters that only operations use which know of it, null for all others.
  std::shared_ptr<bool> gradient_holds_sum = {};
  InitialValue initial;
  ParamMark mark;
  bool decay = true;                 // weight decay applies (not to norms and biases)
  ops::ProductChoice products = {};  // by the class of the whole parameter
  // The cut of the parameter over tensor ranks; owned by the code that cut it. Null on one rank.
  const ops::Cut* cut = nullptr;
};

// A tensor that a model keeps and does not train, such as running statistics or a table: fp32 (double in a model of
// doubles), whole on every rank that computes its unit, and saved with the weights. A forward in training may change
// `value` in place, by numbers that are the same on all ranks.
struct Buffer {
  std::string name;  // global, and no parameter's
  at::Tensor value;
  InitialValue initial;
  // The data-parallel ranks that compute the buffer's unit, each for other samples of the step, with which a forward
  // and a backward in training sum over all samples. parallel::DataRanks sets them where the model `needs_data_ranks`.
  // Null on one rank and in models that are not trained.
  bool needs_data_ranks = false;
  ops::Ranks* data_ranks = nullptr;
};

// The device and types for which a module is built. Device "meta" gives shapes without memory, for counting.
struct Build {
  at::Device device = at::kCPU;
  at::ScalarType type = at::kFloat;
  ops::KernelChoice kernels = {};
  // Whether the parameters have memory. If not, they are on device "meta" until parallel::CutModel allocates what the
  // rank keeps, so that no rank ever has the whole model in memory.
  bool allocate = true;
  // The number of ranks among which the positions of each sample are cut in training (docs/context.md).
  int64_t context_ranks = 1;

  // The build of parameters that stay in fp32 where the model computes in a 16-bit type; their rows in the unit table
  // say always_fp32. A model of doubles, which errors are measured with, has only doubles.
  Build in_fp32() const;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Parameters of this module and its children, in the order of registration, with their full dotted names.
  virtual std::vector<Parameter*> parameters();
  // Buffers of this module and its children, in the order of registration, with their full dotted names.
  virtual std::vector<Buffer*> buffers();

 protected:
  // The parameter, of build.type, lives as long as the module; its value is not initialized yet.
  Parameter& add_parameter(std::string name, at::IntArrayRef shape, InitialValue initial, bool decay,
                           const Build& build);
  Buffer& add_buffer(std::string name, at::IntArrayRef shape, InitialValue initial, const Build& build);

  template <typename M, typename... Args>
  M& add_module(std::string name, Args&&... args) {
    auto module = std::make_unique<M>(std::forward<Args>(args)...);
    M& reference = *module;
    adopt(std::move(name), std::move(module));
    return reference;
  }

 private:
  void adopt(std::string name, std::unique_ptr<Module> module);

  std::vector<std::unique_ptr<Parameter>> own_;
  std::vector<std::unique_ptr<Buffer>> own_buffers_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<Parameter*> order_;
  std::vector<Buffer*> buffer_order_;
};

// The initial value of a parameter for the seed in the given type, on the parameter's device. The fp32 masters of a
// bf16 model start from the unrounded fp32 values. With a range: the elements [begin, end) of the flattened parameter.
at::Tensor initial_value(const Parameter& parameter, uint64_t seed, at::ScalarType type);
at::Tensor initial_value(const Parameter& parameter, uint64_t seed, at::ScalarType type, int64_t begin, int64_t end);

// Fills every value with its initial value for the seed. The bits do not depend on device, threads or layout.
void initialize(const std::vector<Parameter*>& parameters, uint64_t seed);
void initialize(const std::vector<Buffer*>& buffers, uint64_t seed);

// The number of elements of the parameters in the whole model, not only on this rank.
int64_t whole_elements(const std::vector<Parameter*>& parameters);

// allocate_gradients() gives every parameter a zeroed gradient buffer of the type; zero_gradients() zeroes the buffers;
// clear_gradient() does so for one parameter, or lets what comes first be stored over what is there, which is
// `poison`ed in tests.
void allocate_gradients(const std::vector<Parameter*>& parameters, at::ScalarType type);
void zero_gradients(const std::vector<Parameter*>& parameters);
void clear_gradient(const Parameter& parameter, bool poison = false);

// Adds value.grad() to `gradient` and resets it, for parameters that torch operations used directly. Then every
// gradient holds a sum, which is zero where no operation has added anything.
void collect_autograd_gradients(const std::vector<Parameter*>& parameters);

}  // namespace terrace::nn
