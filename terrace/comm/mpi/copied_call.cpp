// A call on copies of its buffers in host memory. The operation owns the copies, so they live as long as MPI may use
// them.
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "terrace/comm/mpi/operation.h"

namespace terrace::comm {
namespace {

// The number of blocks of `count` elements that a call reads, and below the number that it writes.
int64_t blocks_read(Kind kind, int64_t members) {
  if (kind == Kind::receive || kind == Kind::barrier) return 0;
  return kind == Kind::reduce_scatter || kind == Kind::all_to_all ? members : 1;
}

int64_t blocks_written(Kind kind, int64_t members) {
  if (kind == Kind::send || kind == Kind::barrier) return 0;
  return kind == Kind::all_gather || kind == Kind::all_to_all ? members : 1;
}

class OperationOnCopies final : public MpiOperation {
 public:
  OperationOnCopies(const std::shared_ptr<MpiChannel>& channel, const Call& call, bool checked, CopyBytes copy);
  bool advance() override;

 private:
  void place();

  CopyBytes copy_;
  size_t read_bytes_, written_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte *from_ = nullptr, *to_ = nullptr;
  MpiOperationPointer inner_;
};

OperationOnCopies::OperationOnCopies(const std::shared_ptr<MpiChannel>& on, const Call& c, bool checked, CopyBytes copy)
    : MpiOperation(on, c),
      copy_(std::move(copy)),
      read_bytes_(static_cast<size_t>(blocks_read(c.kind, on->size()) * c.count * size_of(c.type))),
      written_bytes_(static_cast<size_t>(blocks_written(c.kind, on->size()) * c.count * size_of(c.type))) {
  place();
  const bool root = c.kind != Kind::broadcast || c.peer == on->member();
  if (root && read_bytes_ > 0) copy_(from_, c.from, read_bytes_);
  Call copied = c;
  copied.from = from_;
  copied.to = to_;
  inner_ = checked ? start_checked(on, copied) : start_unchecked(on, copied);
}

// Places one copy inside of the other where the buffers overlap so, since the algorithm of a sum depends on that.
void OperationOnCopies::place() {
  const auto* const from = static_cast<const std::byte*>(call().from);
  auto* const to = static_cast<std::byte*>(call().to);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(read_bytes_ + written_bytes_);
  from_ = memory_.get();
  to_ = from_ + read_bytes_;
  if (read_bytes_ == 0 || written_bytes_ == 0) return;
  if (to >= from && to + written_bytes_ <= from + read_bytes_) {
    to_ = from_ + (to - from);
  } else if (from >= to && from + read_bytes_ <= to + written_bytes_) {
    from_ = to_ + (from - to);
  }
}

bool OperationOnCopies::advance() {
  if (!inner_->advance()) return false;
  if (written_bytes_ > 0) copy_(call().to, to_, written_bytes_);
  return true;
}

}  // namespace

MpiOperationPointer start_on_copies(const std::shared_ptr<MpiChannel>& channel, const Call& call, bool checked,
                                    CopyBytes copy) {
  return std::make_shared<OperationOnCopies>(channel, call, checked, std::move(copy));
}

}  // namespace terrace::comm
