// Maps precisions to types.
#include "terrace/nn/precision.h"

#include "terrace/base/error.h"

namespace terrace::nn {

at::ScalarType scalar_type(config::Precision precision) {
  switch (precision) {
    case config::Precision::fp32:
      return at::kFloat;
    case config::Precision::bf16:
      return at::kBFloat16;
    case config::Precision::fp16:
      return at::kHalf;
  }
  TERRACE_CHECK(false, "precision {}", static_cast<int>(precision));
}

}  // namespace terrace::nn
