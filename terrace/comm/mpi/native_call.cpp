// Calls as MPI's own nonblocking operations, in pieces whose element counts fit MPI's int.
#include <algorithm>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/comm/mpi/operation.h"

namespace terrace::comm {
namespace {

const char* at(const void* start, int64_t element, Type type) {
  return static_cast<const char*>(start) + element * size_of(type);
}
char* at(void* start, int64_t element, Type type) { return static_cast<char*>(start) + element * size_of(type); }

class NativeOperation final : public MpiOperation {
 public:
  NativeOperation(std::shared_ptr<MpiChannel> channel, const Call& call) : MpiOperation(std::move(channel), call) {}
  bool advance() override {
    if (!std::exchange(posted_, true)) post();
    return test_all(requests_);
  }

 private:
  void post();
  void post_piece(int64_t begin, int count);
  void post_block_piece(int64_t begin, int count);
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  bool posted_ = false;
  std::vector<MPI_Request> requests_;
};

void NativeOperation::post() {
  if (call().kind == Kind::barrier) {
    check_mpi(MPI_Ibarrier(channel().communicator(), next_request()), "MPI_Ibarrier");
    return;
  }
  const bool in_blocks =
      call().kind == Kind::all_gather || call().kind == Kind::all_to_all || call().kind == Kind::reduce_scatter;
  const int64_t most =
      std::max<int64_t>(1, channel().choices().limits.elements_per_call / (in_blocks ? channel().size() : 1));
  for (int64_t begin = 0; begin < call().count; begin += most) {
    const auto count = static_cast<int>(std::min(most, call().count - begin));
    if (in_blocks) {
      post_block_piece(begin, count);
    } else {
      post_piece(begin, count);
    }
  }
}

// Starts the operation for elements [begin, begin + count) of a buffer that all members have.
void NativeOperation::post_piece(int64_t begin, int count) {
  const Call& c = call();
  const MPI_Datatype type = channel().library().type_of(c.type);
  const MPI_Comm communicator = channel().communicator();
  const auto peer = static_cast<int>(c.peer);
  switch (c.kind) {
    case Kind::all_reduce:
      return check_mpi(MPI_Iallreduce(MPI_IN_PLACE, at(c.to, begin, c.type), count, type,
                                      channel().library().sum_of(c.type), communicator, next_request()),
                       "MPI_Iallreduce");
    case Kind::broadcast:
      return check_mpi(MPI_Ibcast(at(c.to, begin, c.type), count, type, peer, communicator, next_request()),
                       "MPI_Ibcast");
    case Kind::send:
      return check_mpi(
          MPI_Isend(at(c.from, begin, c.type), count, type, peer, send_receive_tag, communicator, next_request()),
          "MPI_Isend");
    case Kind::receive:
      return check_mpi(
          MPI_Irecv(at(c.to, begin, c.type), count, type, peer, send_receive_tag, communicator, next_request()),
          "MPI_Irecv");
    default:
      TERRACE_CHECK(false, "{} goes by blocks", name_of(c.kind));
  }
}

// An MPI type for `count` elements of each block: the next item begins one block of `block_bytes` further on.
class PieceOfBlocks {
 public:
  PieceOfBlocks(MPI_Datatype element, int count, int64_t block_bytes) {
    MPI_Datatype piece = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(count, element, &piece), "MPI_Type_contiguous");
    check_mpi(MPI_Type_create_resized(piece, 0, block_bytes, &type_), "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    MPI_Type_free(&piece);
  }
  // MPI keeps the type for as long as operations under way use it.
  ~PieceOfBlocks() { MPI_Type_free(&type_); }
  PieceOfBlocks(const PieceOfBlocks&) = delete;
  PieceOfBlocks& operator=(const PieceOfBlocks&) = delete;

  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Starts the operation for elements [begin, begin + count) of every block.
void NativeOperation::post_block_piece(int64_t begin, int count) {
  const Call& c = call();
  const MPI_Datatype element = channel().library().type_of(c.type);
  const MPI_Comm communicator = channel().communicator();
  if (c.kind == Kind::reduce_scatter) {
    TERRACE_CHECK(count == c.count, "MPI has no reduce_scatter of parts of blocks");
    return check_mpi(MPI_Ireduce_scatter_block(c.from, c.to, count, element, channel().library().sum_of(c.type),
                                               communicator, next_request()),
                     "MPI_Ireduce_scatter_block");
  }
  const bool whole = count == c.count;
  std::optional<PieceOfBlocks> piece;
  if (!whole) piece.emplace(element, count, c.count * size_of(c.type));
  const MPI_Datatype type = whole ? element : piece->type();
  const int items = whole ? count : 1;
  const void* from = at(c.from, begin, c.type);
  void* to = at(c.to, begin, c.type);
  if (c.kind == Kind::all_to_all) {
    return check_mpi(MPI_Ialltoall(from, items, type, to, items, type, communicator, next_request()), "MPI_Ialltoall");
  }
  if (c.from == at(c.to, channel().member() * c.count, c.type)) from = MPI_IN_PLACE;
  check_mpi(MPI_Iallgather(from, items, type, to, items, type, communicator, next_request()), "MPI_Iallgather");
}

}  // namespace

bool test_all(std::vector<MPI_Request>& requests) {
  if (requests.empty()) return true;
  int done = 0;
  if (requests.size() == 1) {
    check_mpi(MPI_Test(requests.data(), &done, MPI_STATUS_IGNORE), "MPI_Test");
  } else {
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
  }
  if (done != 0) requests.clear();
  return done != 0;
}

MpiOperationPointer start_native(std::shared_ptr<MpiChannel> channel, const Call& call) {
  return std::make_shared<NativeOperation>(std::move(channel), call);
}

}  // namespace terrace::comm
