// Replaces the memory of a storage, which all views share.
#include "terrace/parallel/storage.h"

#include <c10/core/StorageImpl.h>

#include "terrace/base/error.h"

namespace terrace::parallel {
namespace {

void set_memory(const at::Tensor& tensor, int64_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  TERRACE_CHECK(storage->allocator() != nullptr && tensor.is_contiguous() && tensor.storage_offset() == 0,
                "a view has no memory of its own");
  storage->set_data_ptr_noswap(storage->allocator()->allocate(static_cast<size_t>(bytes)));
  storage->set_nbytes(static_cast<size_t>(bytes));
}

}  // namespace

void release_storage(const at::Tensor& tensor) { set_memory(tensor, 0); }

void take_storage(const at::Tensor& tensor) {
  if (!has_storage(tensor)) set_memory(tensor, static_cast<int64_t>(tensor.numel() * tensor.element_size()));
}

bool has_storage(const at::Tensor& tensor) { return tensor.numel() == 0 || tensor.storage().nbytes() > 0; }

}  // namespace terrace::parallel
