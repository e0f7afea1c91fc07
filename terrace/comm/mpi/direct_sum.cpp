// Sums by direct exchange: each member receives all terms of its part, adds them, and in an all_reduce sends the total
// to all. Parts are exchanged in pieces, a few at a time, so that the memory beside the buffers is bounded. A short
// buffer is one part, which every member adds.
#include <algorithm>
#include <array>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/comm/mpi/operation.h"
#include "terrace/comm/sum.h"

namespace terrace::comm {
namespace {

constexpr int64_t depth = 3;  // pieces under way

class DirectSum final : public MpiOperation {
 public:
  DirectSum(std::shared_ptr<MpiChannel> channel, const Call& call);
  bool advance() override;

 private:
  struct Slot {
    std::vector<MPI_Request> requests;
    std::vector<char> terms;  // of the other members, in their order
  };

  BufferRange part(int64_t member) const;
  BufferRange member_piece(int64_t member, int64_t piece) const;
  Slot& slot(int64_t piece) { return slots_[static_cast<size_t>(piece % depth)]; }
  char* term(int64_t member, int64_t piece);
  void* total(int64_t piece) const;
  void post_terms(int64_t piece);
  void add(int64_t piece);
  void post_totals(int64_t piece);
  void send(const void* data, int64_t count, int64_t to, TagUse use, Slot& slot);
  void receive(void* data, int64_t count, int64_t from, TagUse use, Slot& slot);

  bool everyone_adds_;
  int64_t part_count_;   // elements of the longest part
  int64_t piece_count_;  // elements of a piece
  int64_t pieces_;
  // Pieces that were posted, added and finished so far. All members take them in ascending order, so that messages
  // match.
  int64_t posted_ = 0, added_ = 0, finished_ = 0;
  std::array<Slot, depth> slots_;
};

DirectSum::DirectSum(std::shared_ptr<MpiChannel> channel, const Call& c) : MpiOperation(std::move(channel), c) {
  const int64_t members = this->channel().size(), bytes = size_of(c.type);
  everyone_adds_ = c.kind == Kind::all_reduce && c.count * bytes <= this->channel().choices().limits.gathered_bytes;
  part_count_ = c.kind == Kind::all_reduce && !everyone_adds_ ? (c.count + members - 1) / members : c.count;
  // With many members the pieces are shorter, since a member receives one from each other.
  const int64_t piece_bytes = this->channel().choices().limits.piece_bytes * 8 / std::max<int64_t>(8, members - 1);
  piece_count_ = std::max<int64_t>(1, piece_bytes / bytes);
  pieces_ = (part_count_ + piece_count_ - 1) / piece_count_;
}

// The elements that the member adds.
BufferRange DirectSum::part(int64_t member) const {
  if (everyone_adds_) return {0, call().count};
  const int64_t blocks = call().kind == Kind::reduce_scatter ? channel().size() : 1;
  return part_of(member, part_count_, blocks * call().count);
}

BufferRange DirectSum::member_piece(int64_t member, int64_t piece) const {
  return piece_of(part(member), piece, piece_count_);
}

char* DirectSum::term(int64_t member, int64_t piece) {
  const int64_t place = member < channel().member() ? member : member - 1;
  return slot(piece).terms.data() + place * std::min(piece_count_, part_count_) * size_of(call().type);
}

void* DirectSum::total(int64_t piece) const {
  const int64_t begin =
      call().kind == Kind::reduce_scatter ? piece * piece_count_ : member_piece(channel().member(), piece).begin;
  return static_cast<char*>(call().to) + begin * size_of(call().type);
}

void DirectSum::send(const void* data, int64_t count, int64_t to, TagUse use, Slot& slot) {
  if (count == 0) return;
  check_mpi(MPI_Isend(data, static_cast<int>(count), channel().library().type_of(call().type), static_cast<int>(to),
                      tag_of(call(), use), channel().communicator(), &slot.requests.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
}

void DirectSum::receive(void* data, int64_t count, int64_t from, TagUse use, Slot& slot) {
  if (count == 0) return;
  check_mpi(MPI_Irecv(data, static_cast<int>(count), channel().library().type_of(call().type), static_cast<int>(from),
                      tag_of(call(), use), channel().communicator(), &slot.requests.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Irecv");
}

// Each member begins with the member after it, so that not all send to the same one at a time.
void DirectSum::post_terms(int64_t piece) {
  const int64_t members = channel().size(), me = channel().member();
  const int64_t own = member_piece(me, piece).count;
  Slot& here = slot(piece);
  here.requests.reserve(static_cast<size_t>(2 * (members - 1)));
  here.terms.resize(static_cast<size_t>((members - 1) * std::min(piece_count_, part_count_) * size_of(call().type)));
  for (int64_t step = 1; step < members; ++step) {
    const int64_t from = (me + members - step) % members;
    receive(term(from, piece), own, from, TagUse::terms, here);
  }
  for (int64_t step = 1; step < members; ++step) {
    const int64_t to = (me + step) % members;
    const BufferRange theirs = member_piece(to, piece);
    send(static_cast<const char*>(call().from) + theirs.begin * size_of(call().type), theirs.count, to, TagUse::terms,
         here);
  }
}

void DirectSum::add(int64_t piece) {
  const BufferRange own = member_piece(channel().member(), piece);
  if (own.count == 0) return;
  std::vector<const void*> from;
  from.reserve(static_cast<size_t>(channel().size()));
  for (const int64_t member : channel().in_rank_order()) {
    from.push_back(member == channel().member()
                       ? static_cast<const char*>(call().from) + own.begin * size_of(call().type)
                       : term(member, piece));
  }
  void* const to[] = {total(piece)};
  sum_members(call().type, from, to, 0, own.count);
}

void DirectSum::post_totals(int64_t piece) {
  const int64_t members = channel().size(), me = channel().member();
  for (int64_t step = 1; step < members; ++step) {
    const int64_t from = (me + members - step) % members, to = (me + step) % members;
    const BufferRange theirs = member_piece(from, piece);
    receive(static_cast<char*>(call().to) + theirs.begin * size_of(call().type), theirs.count, from, TagUse::totals,
            slot(piece));
    send(total(piece), member_piece(me, piece).count, to, TagUse::totals, slot(piece));
  }
}

bool DirectSum::advance() {
  const bool sends_totals = call().kind == Kind::all_reduce && !everyone_adds_;
  for (bool moved = true; moved;) {
    moved = false;
    if (posted_ < pieces_ && posted_ - finished_ < depth) {
      post_terms(posted_++);
      moved = true;
    }
    if (added_ < posted_ && test_all(slot(added_).requests)) {
      add(added_);
      if (sends_totals) post_totals(added_);
      ++added_;
      moved = true;
    }
    if (finished_ < added_ && test_all(slot(finished_).requests)) {
      ++finished_;
      moved = true;
    }
  }
  return finished_ == pieces_;
}

}  // namespace

MpiOperationPointer start_direct_sum(std::shared_ptr<MpiChannel> channel, const Call& call) {
  return std::make_shared<DirectSum>(std::move(channel), call);
}

}  // namespace terrace::comm
