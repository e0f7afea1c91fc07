// Times cuBLASLt's products alone and with GELU, its slope or sums for a bias within, in bf16: the milliseconds of its
// first choice for the feed-forward network of a GPT. docs: bench/results/gpu.md. Usage:
//
//     nvcc -O2 -std=c++20 -arch=sm_90 bench/gpu/products_within.cu -lcublasLt -o products_within && ./products_within
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "%s failed with %d\n", what, status);
  std::exit(1);
}

__global__ void fill(__nv_bfloat16* numbers, size_t n) {
  const size_t i = blockIdx.x * size_t{256} + threadIdx.x;
  if (i < n) numbers[i] = __float2bfloat16(static_cast<float>((i * 2654435761u >> 8) & 0xffff) / 65536 - 0.5f);
}

template <typename T>
T* memory(size_t n) {
  T* made = nullptr;
  check(cudaMalloc(&made, n * sizeof(T)), "cudaMalloc");
  if constexpr (sizeof(T) == 2) fill<<<(n + 255) / 256, 256>>>(made, n);
  return made;
}

cublasLtHandle_t library;
void* workspace;
constexpr size_t workspace_bytes = size_t{32} << 20;

// out [m, n] = a (or its transpose) b (or its transpose), in columns, as cuBLAS counts.
struct Product {
  const char* name;
  int m, n, k;
  bool transposes_a, transposes_b;
  cudaDataType_t type;
  cublasLtEpilogue_t epilogue;
  void *a, *b, *out, *gelu_input, *bias;
};

void report(const Product& p) {
  cublasLtMatmulDesc_t description;
  check(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), "an attribute");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  if (p.bias != nullptr) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.type);
  }
  if (p.gelu_input != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.gelu_input);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<int64_t>(p.m));
  }
  const auto matrix = [](cudaDataType_t type, int rows, int columns) {
    cublasLtMatrixLayout_t made;
    check(cublasLtMatrixLayoutCreate(&made, type, rows, columns, rows), "cublasLtMatrixLayoutCreate");
    return made;
  };
  const auto a = p.transposes_a ? matrix(CUDA_R_16BF, p.k, p.m) : matrix(CUDA_R_16BF, p.m, p.k);
  const auto b = p.transposes_b ? matrix(CUDA_R_16BF, p.n, p.k) : matrix(CUDA_R_16BF, p.k, p.n);
  const auto out = matrix(p.type, p.m, p.n);
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                             sizeof workspace_bytes),
        "a preference");
  cublasLtMatmulHeuristicResult_t choice{};
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(library, description, a, b, out, out, preference, 1, &choice, &found);
  if (found == 0) {
    std::printf("%-40s there is none\n", p.name);
    return;
  }
  const float one = 1, none = 0;
  const auto multiply = [&] {
    check(cublasLtMatmul(library, description, &one, p.a, a, p.b, b, &none, p.out, out, p.out, out, &choice.algo,
                         workspace, workspace_bytes, nullptr),
          p.name);
  };
  constexpr int repeats = 8;
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = 0; i < 2; ++i) multiply();
  check(cudaEventRecord(begin), "cudaEventRecord");
  for (int i = 0; i < repeats; ++i) multiply();
  check(cudaEventRecord(end), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  milliseconds /= repeats;
  std::printf("%-40s %.3f ms, %.0f TFLOP/s\n", p.name, milliseconds, 2e-9 * p.m * p.n * p.k / milliseconds);
}

}  // namespace

int main() {
  constexpr int tokens = 16384, width = 1792, inner = 4 * width;
  check(cublasLtCreate(&library), "cublasLtCreate");
  check(cudaMalloc(&workspace, workspace_bytes), "cudaMalloc");
  using Number = __nv_bfloat16;
  auto *x = memory<Number>(size_t{tokens} * width), *y = memory<Number>(size_t{tokens} * width);
  auto *hidden = memory<Number>(size_t{tokens} * inner), *kept = memory<Number>(size_t{tokens} * inner);
  auto *first = memory<Number>(size_t{width} * inner), *second = memory<Number>(size_t{width} * inner);
  auto* bias = memory<Number>(inner);
  auto *gradient = memory<float>(size_t{width} * inner), *bias_gradient = memory<float>(inner);
  constexpr auto bf16 = CUDA_R_16BF, fp32 = CUDA_R_32F;
  const Product products[] = {
      {"first layer, bias", inner, tokens, width, true, false, bf16, CUBLASLT_EPILOGUE_BIAS, first, x, hidden, nullptr,
       bias},
      {"first layer, bias and GELU", inner, tokens, width, true, false, bf16, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, first, x,
       hidden, kept, bias},
      {"gradient of its result", inner, tokens, width, false, false, bf16, CUBLASLT_EPILOGUE_DEFAULT, second, y, hidden,
       nullptr, nullptr},
      {"the same, slope of GELU", inner, tokens, width, false, false, bf16, CUBLASLT_EPILOGUE_DGELU, second, y, hidden,
       kept, nullptr},
      {"the same, and sums for the bias", inner, tokens, width, false, false, bf16, CUBLASLT_EPILOGUE_DGELU_BGRAD,
       second, y, hidden, kept, bias},
      {"weight gradient", width, inner, tokens, false, true, fp32, CUBLASLT_EPILOGUE_DEFAULT, x, hidden, gradient,
       nullptr, nullptr},
      {"weight gradient, sums for the bias", width, inner, tokens, false, true, fp32, CUBLASLT_EPILOGUE_BGRADB, x,
       hidden, gradient, nullptr, bias_gradient},
  };
  for (const Product& product : products) report(product);
  return 0;
}
