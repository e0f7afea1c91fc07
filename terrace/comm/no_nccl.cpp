// Replaces comm/nccl/ in a build without the CUDA kernels or without MPI. No memory is on a GPU then.
#include "terrace/base/error.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {
namespace {

constexpr const char* none = "a build without NCCL";

}  // namespace

struct NcclChannel::State {};

bool made_with_nccl() { return false; }

bool is_on_gpu(const void*) { return false; }

void copy_on_gpu(const void*, void*, int64_t) { TERRACE_CHECK(false, "{}", none); }

void copy_and_wait(int, void*, const void*, size_t) { TERRACE_CHECK(false, "{}", none); }

std::string gpu_bus_address(int) { TERRACE_CHECK(false, "{}", none); }

void prepare_for_ranks() {}

NcclIds make_nccl_ids(size_t) { TERRACE_CHECK(false, "{}", none); }

NcclChannel::NcclChannel(const NcclIds&, const mesh::Group&, int64_t, const std::vector<mesh::Direction>&, int, bool,
                         const std::function<void()>&) {
  TERRACE_CHECK(false, "{}", none);
}

NcclChannel::~NcclChannel() = default;

std::shared_ptr<NcclCall> NcclChannel::start(const Call&) { TERRACE_CHECK(false, "{}", none); }

void NcclChannel::wait_for_calls(const std::function<void()>&) {}

void NcclChannel::close() {}

void NcclChannel::abort() {}

}  // namespace terrace::comm
