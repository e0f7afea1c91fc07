// Calls cuBLASLt, whose matrices have columns where ours have rows: it computes the transpose of each product.
#include "terrace/ops/products/gelu_products.h"

#include <ATen/ops/empty.h>
#include <cublasLt.h>

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>

#include "terrace/base/error.h"
#include "terrace/ops/cuda/torch_stream.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

// The size that NVIDIA recommends for Hopper; less is enough for older GPUs.
constexpr size_t workspace_bytes = size_t{32} << 20;
constexpr uint32_t aligned_bytes = 16;

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw UserError::of("{} failed: {}; the GPU may be out of memory, or its driver older than the program's CUDA",
                        call, cublasLtGetStatusString(status));
  }
}

// Pointer types of the library own what they point to, and are destroyed by a function of it.
template <typename Pointer, cublasStatus_t (*destroy)(Pointer)>
struct Destroyed {
  void operator()(Pointer pointer) const { destroy(pointer); }
};
template <typename Pointer, cublasStatus_t (*destroy)(Pointer)>
using Owned = std::unique_ptr<std::remove_pointer_t<Pointer>, Destroyed<Pointer, destroy>>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// A product in the words of cuBLASLt: out [m, n] = (weight or its transpose) x, in columns.
struct Shape {
  int device = 0;
  int64_t m = 0, n = 0, k = 0;
  cudaDataType_t type = CUDA_R_16BF;
  bool transposes_weight = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  auto operator<=>(const Shape&) const = default;
};

struct Addresses {
  const void *weight = nullptr, *x = nullptr, *bias = nullptr;
  void *gelu_input = nullptr, *out = nullptr;
};

template <typename Value>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

Matrix matrix(cudaDataType_t type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  return Matrix(made);
}

class Product {
 public:
  explicit Product(const Shape& shape)
      : weight_(shape.transposes_weight ? matrix(shape.type, shape.k, shape.m) : matrix(shape.type, shape.m, shape.k)),
        x_(matrix(shape.type, shape.k, shape.n)),
        out_(matrix(shape.type, shape.m, shape.n)) {
    cublasLtMatmulDesc_t made = nullptr;
    check(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    description_.reset(made);
    set(description_, CUBLASLT_MATMUL_DESC_TRANSA, shape.transposes_weight ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, shape.epilogue);
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.m);
  }

  // The library's first choice for the shape. It is asked with the least alignment of all addresses, so that the answer
  // depends on the shape and the GPU alone and holds for any operands.
  std::optional<cublasLtMatmulAlgo_t> choice(cublasLtHandle_t library, bool has_bias) const {
    auto* const least_aligned = reinterpret_cast<void*>(uintptr_t{aligned_bytes});
    give({.bias = has_bias ? least_aligned : nullptr, .gelu_input = least_aligned});
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
    const Preference preference(made);
    check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                               sizeof(workspace_bytes)),
          "cublasLtMatmulPreferenceSetAttribute");
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &aligned_bytes, sizeof(aligned_bytes)),
            "cublasLtMatmulPreferenceSetAttribute");
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library, description_.get(), weight_.get(), x_.get(),
                                                                 out_.get(), out_.get(), made, 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) return std::nullopt;
    return found.algo;
  }

  void compute(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm, const Addresses& at,
               const at::Tensor& workspace, void* stream) const {
    give(at);
    const float one = 1, none = 0;
    check(cublasLtMatmul(library, description_.get(), &one, at.weight, weight_.get(), at.x, x_.get(), &none, at.out,
                         out_.get(), at.out, out_.get(), &algorithm, workspace.mutable_data_ptr(), workspace_bytes,
                         static_cast<cudaStream_t>(stream)),
          "cublasLtMatmul");
  }

 private:
  void give(const Addresses& at) const {
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.gelu_input);
    if (at.bias != nullptr) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
  }

  Description description_;
  Matrix weight_, x_, out_;
};

// Returns the library's handle for a device; each device has one.
cublasLtHandle_t library_of(int device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> libraries;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& library = libraries[device];
  if (library == nullptr) check(cublasLtCreate(&library), "cublasLtCreate");
  return library;
}

// Asked once for each shape, since the answer takes longer than the launch of a product.
std::optional<cublasLtMatmulAlgo_t> algorithm_for(const Shape& shape, const Product& product, bool has_bias) {
  static std::mutex mutex;
  static std::map<Shape, std::optional<cublasLtMatmulAlgo_t>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(shape);
  if (found != known.end()) return found->second;
  return known.emplace(shape, product.choice(library_of(shape.device), has_bias)).first->second;
}

bool is_aligned(const at::Tensor& tensor) {
  return !tensor.defined() ||
         (tensor.is_contiguous() && reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % aligned_bytes == 0 &&
          tensor.size(-1) * tensor.element_size() % aligned_bytes == 0);
}

bool compute(Shape shape, const at::Tensor& weight, const at::Tensor& x, const at::Tensor& bias,
             const at::Tensor& gelu_input, const at::Tensor& out) {
  const at::ScalarType type = x.scalar_type();
  if (!x.is_cuda() || (type != at::kBFloat16 && type != at::kHalf) || x.size(0) == 0) return false;
  for (const at::Tensor* tensor : {&weight, &x, &bias, &gelu_input, &out}) {
    if (!is_aligned(*tensor) || (tensor->defined() && tensor->scalar_type() != type)) return false;
  }
  TERRACE_CHECK(x.dim() == 2 && x.size(1) == shape.k && gelu_input.sizes() == out.sizes() && out.size(1) == shape.m,
                "a product of {} columns by a weight of {}", x.size(1), shape.k);
  shape.device = x.device().index();
  shape.type = type == at::kBFloat16 ? CUDA_R_16BF : CUDA_R_16F;
  const cuda::TorchStream stream(x.device());
  const Addresses at{.weight = weight.const_data_ptr(),
                     .x = x.const_data_ptr(),
                     .bias = bias.defined() ? bias.const_data_ptr() : nullptr,
                     .gelu_input = gelu_input.data_ptr(),
                     .out = out.mutable_data_ptr()};
  const Product product(shape);
  const auto algorithm = algorithm_for(shape, product, bias.defined());
  if (!algorithm) return false;
  const profile::OperationRecord record(
      shape.transposes_weight ? "terrace::linear_gelu" : "terrace::linear_inputs_gelu", [&] {
        return profile::OperationCost{
            .flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k),
            .bytes = profile::bytes_of({weight, x, gelu_input, out})};
      });
  const at::Tensor workspace = at::empty({static_cast<int64_t>(workspace_bytes)}, x.options().dtype(at::kByte));
  product.compute(library_of(shape.device), *algorithm, at, workspace, stream.get());
  return true;
}

}  // namespace

bool linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& inner,
                 const at::Tensor& active) {
  const Shape shape{.m = weight.size(0),
                    .n = x.size(0),
                    .k = weight.size(1),
                    .transposes_weight = true,
                    .epilogue = bias.defined() ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX};
  return compute(shape, weight, x, bias, inner, active);
}

bool linear_inputs_gelu(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& inner,
                        const at::Tensor& d_inner) {
  const Shape shape{.m = weight.size(1), .n = dy.size(0), .k = weight.size(0), .epilogue = CUBLASLT_EPILOGUE_DGELU};
  return compute(shape, weight, dy, {}, inner, d_inner);
}

}  // namespace terrace::ops
