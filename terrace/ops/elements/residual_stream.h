// The residual stream of a transformer, to which each branch adds its output: x = x + branch(norm(x)).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "terrace/ops/elements/dropout.h"

namespace terrace::ops {

// The sum x + branch. An addition only notes the branch, so that the next norm of the stream computes the sum in its
// own pass over memory (norm.h); sum() computes it where no norm follows.
struct ResidualStream {
  at::Tensor x;            // [.., D]
  at::Tensor branch = {};  // of the same shape; undefined: x is the whole sum

  at::Tensor sum() const { return branch.defined() ? x.add(branch) : x; }
};

// The output of a branch before its dropout, which is drawn while the output is added.
struct Dropped {
  at::Tensor branch;
  DropoutSite site;
  std::string name;  // of the site: see dropout_add()
};

inline ResidualStream operator+(const ResidualStream& stream, const at::Tensor& branch) {
  return {stream.sum(), branch};
}
// Computes the sum at once, in the kernel of dropout.
inline ResidualStream operator+(const ResidualStream& stream, const Dropped& dropped) {
  return {dropout_add(stream.sum(), dropped.branch, dropped.site, dropped.name)};
}

}  // namespace terrace::ops
