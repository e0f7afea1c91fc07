// Gathers positions in forward and takes a rank's own ones of the gradient in backward.
#include "terrace/ops/positions.h"

#include <torch/csrc/autograd/custom_function.h>

#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

class AllPositionsFunction : public torch::autograd::Function<AllPositionsFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Cut* cut,
                            const std::string& what) {
    save_object(context, "cut", *cut);
    return whole_sequence(cut, x, what.c_str());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivative("all_positions");
    return {own_positions(&saved_object<Cut>(context, "cut"), gradients[0]), {}, {}};
  }
};

}  // namespace

at::Tensor all_positions(const Cut* cut, const at::Tensor& x, const char* what) {
  return cut == nullptr || !cut->sequence ? x : AllPositionsFunction::apply(x, cut, what);
}

}  // namespace terrace::ops
