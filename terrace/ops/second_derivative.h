// Refuses derivatives of derivatives, which our operations do not have: their backward adds to buffers of gradients and
// keeps no graph, so terms would be lost.
#pragma once

namespace terrace::ops {

// Called at the start of a backward. Throws std::runtime_error that names the operation if torch keeps a graph of this
// backward (create_graph).
void refuse_second_derivative(const char* operation);

}  // namespace terrace::ops
