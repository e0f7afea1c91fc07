// Reads and writes the views of parameters that are tensors of transformers.
#include "terrace/exchange/hf_values.h"

#include <ATen/ops/cat.h>

#include <vector>

#include "terrace/base/error.h"

namespace terrace::exchange {

at::Tensor values_in(const at::Tensor& parameter, const models::HfTensor& theirs) {
  if (theirs.views.size() == 1) return theirs.views.front()(parameter).reshape(theirs.shape);
  std::vector<at::Tensor> parts;
  for (const auto& view : theirs.views) parts.push_back(view(parameter).flatten());
  return at::cat(parts).view(theirs.shape);
}

void set_values_in(const at::Tensor& parameter, const models::HfTensor& theirs, const at::Tensor& values) {
  const at::Tensor flat = values.flatten();
  int64_t done = 0;
  for (const auto& view : theirs.views) {
    const at::Tensor place = view(parameter);
    place.copy_(flat.narrow(0, done, place.numel()).view(place.sizes()));
    done += place.numel();
  }
  TERRACE_CHECK(done == flat.numel(), "{} of {} values of '{}' have a place", done, flat.numel(), theirs.name);
}

}  // namespace terrace::exchange
