// Calls among processes of one machine through slot rings in shared memory. A call takes consecutive slots of each
// ring; the members derive from its arguments what each slot holds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/describe_call.h"
#include "terrace/comm/mpi/operation.h"
#include "terrace/comm/sum.h"

namespace terrace::comm {
namespace {

CallSignature signature_of(const Call& call) {
  return {.kind = call.kind == Kind::receive ? Kind::send : call.kind,
          .type = call.type,
          .count = call.count,
          .peer = call.kind == Kind::broadcast ? call.peer : -1};
}

// The other rank's label is not known here, so the message has none for it.
[[noreturn]] void disagree(const MpiOperation& operation, int64_t other, const CallSignature& signature) {
  const mesh::Group& group = operation.channel().group();
  Call theirs = {
      .kind = signature.kind, .type = signature.type, .count = signature.count, .sequence = operation.call().sequence};
  theirs.peer = is_collective(theirs) ? signature.peer : operation.channel().member();
  throw CommError(fmt::format("ranks disagree on a call: rank {} makes {}, rank {} makes {}",
                              group.ranks[static_cast<size_t>(operation.channel().member())],
                              with_contents(group, operation.call()), group.ranks[static_cast<size_t>(other)],
                              with_contents(group, theirs)));
}

void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Fills and reads the slots of one call in their order. Calls that use the same ring follow one another.
class SharedOperation : public MpiOperation {
 public:
  SharedOperation(std::shared_ptr<MpiChannel> channel, const Call& call)
      : MpiOperation(std::move(channel), call), bytes_(size_of(call.type)), signature_(signature_of(call)) {}

  bool advance() override;
  // The others wait for free slots only where a call takes more of them than a ring has.
  bool needs_polling() const override { return num_filled_ < slots_ || slots_ - num_read_ > rings().size().slots; }

 protected:
  // Fills the free slots at once, so that the others find their data before this member waits.
  void begin(int64_t slots, RingWriter* writer, FifoOrder* reads);
  SharedRings& rings() const { return *channel().rings(); }
  int64_t slot_bytes() const { return rings().size().slot_bytes; }
  int64_t bytes() const { return bytes_; }  // of one element
  const char* from() const { return static_cast<const char*>(call().from); }
  char* to() const { return static_cast<char*>(call().to); }

  virtual bool may_fill(int64_t /*slot*/) const { return true; }
  virtual void fill(int64_t slot, std::byte* room) = 0;
  virtual bool read(int64_t slot) = 0;  // false where the slot is not filled yet
  const std::byte* find_slot(RingReader& ring, int64_t writer) const;

  int64_t num_read() const { return num_read_; }

 private:
  bool fill_next();
  bool read_next();

  const int64_t bytes_;
  const CallSignature signature_;
  RingWriter* writer_ = nullptr;  // null where this member only reads
  FifoOrder* reads_ = nullptr;    // null where this member only fills
  uint64_t fill_position_ = 0, read_position_ = 0;
  int64_t slots_ = 0, num_filled_ = 0, num_read_ = 0;
};

void SharedOperation::begin(int64_t slots, RingWriter* writer, FifoOrder* reads) {
  slots_ = slots;
  if (slots == 0) return;
  writer_ = writer;
  reads_ = reads;
  if (writer_ != nullptr) {
    fill_position_ = writer_->order.join();
  } else {
    num_filled_ = slots;
  }
  if (reads_ != nullptr) {
    read_position_ = reads_->join();
  } else {
    num_read_ = slots;
  }
  while (fill_next()) {
  }
}

// Moves at most as many slots as the ring has, because the engine's lock is held meanwhile.
bool SharedOperation::advance() {
  bool moved = true;
  for (int64_t i = 0; moved && i < rings().size().slots; ++i) {
    moved = fill_next();
    moved |= read_next();
  }
  return num_filled_ == slots_ && num_read_ == slots_;
}

bool SharedOperation::fill_next() {
  if (num_filled_ == slots_ || !writer_->order.is_first(fill_position_) || !may_fill(num_filled_)) return false;
  std::byte* const room = writer_->free_slot();
  if (room == nullptr) return false;
  fill(num_filled_, room);
  writer_->fill(signature_);
  if (++num_filled_ == slots_) writer_->order.leave();
  return true;
}

bool SharedOperation::read_next() {
  // A slot is read only after this member's own has been filled: a call may write into the buffer that it sends from.
  if (num_read_ == slots_ || num_read_ == num_filled_ || !reads_->is_first(read_position_)) return false;
  if (!read(num_read_)) return false;
  if (++num_read_ == slots_) reads_->leave();
  return true;
}

const std::byte* SharedOperation::find_slot(RingReader& ring, int64_t writer) const {
  const std::byte* const found = ring.filled_slot();
  if (found != nullptr && signature_ != ring.signature()) disagree(*this, writer, ring.signature());
  return found;
}

class SharedMessage final : public SharedOperation {
 public:
  SharedMessage(std::shared_ptr<MpiChannel> to, const Call& c) : SharedOperation(std::move(to), c) {
    const bool sends = c.kind == Kind::send;
    const int64_t slots = std::max<int64_t>(1, (c.count * bytes() + slot_bytes() - 1) / slot_bytes());
    begin(slots, sends ? &rings().to(c.peer) : nullptr, sends ? nullptr : &rings().from(c.peer).order);
  }

 private:
  int64_t bytes_in(int64_t slot) const { return std::min(slot_bytes(), call().count * bytes() - slot * slot_bytes()); }
  void fill(int64_t slot, std::byte* room) override { copy(room, from() + slot * slot_bytes(), bytes_in(slot)); }
  bool read(int64_t slot) override;
};

bool SharedMessage::read(int64_t slot) {
  RingReader& ring = rings().from(call().peer);
  const std::byte* const found = find_slot(ring, call().peer);
  if (found == nullptr) return false;
  copy(to() + slot * slot_bytes(), found, bytes_in(slot));
  ring.release();
  return true;
}

// Each member fills the ring that all others read and reads those of the others; in a broadcast only the root's. A slot
// holds one piece for everyone, or one piece for each of the others.
class SharedCollective final : public SharedOperation {
 public:
  SharedCollective(std::shared_ptr<MpiChannel> channel, const Call& call);

 private:
  struct Slot {
    bool for_each = false;  // a piece for each of the others
    int64_t piece = 0;
  };

  void plan_pieces();
  Slot slot_of(int64_t slot) const;
  int64_t slot_with_terms(int64_t piece) const { return piece == 0 ? 0 : 2 * piece - 1; }
  BufferRange range_of(int64_t member, int64_t piece) const;
  int64_t own() const { return channel().member(); }
  // The byte at which the writer's piece for a member begins in a slot.
  int64_t offset_in_slot(const Slot& slot, int64_t writer, int64_t member) const;
  bool is_read(int64_t member) const;
  bool adds(const Slot& slot) const;
  bool may_fill(int64_t slot) const override;
  void fill(int64_t slot, std::byte* room) override;
  // Copies this member's own block to its result, unless it is there already.
  void copy_own_block(const char* source, const BufferRange& target);
  bool read(int64_t slot) override;
  void add(const Slot& slot);

  // Whether this is an all_reduce in which each member sums one part and sends the total to the others. In a shorter
  // one each member sums everything.
  bool sends_totals_ = false;
  int64_t part_count_ = 0;   // elements of a member's part; the last member's may be shorter
  int64_t piece_count_ = 0;  // elements of a piece; the last piece of a part may be shorter
  int64_t pieces_ = 0;       // pieces of a part
  std::array<const std::byte*, MpiLimits::most_ring_members> found_ = {};  // by member: the slot that is read
};

SharedCollective::SharedCollective(std::shared_ptr<MpiChannel> to_channel, const Call& c)
    : SharedOperation(std::move(to_channel), c) {
  plan_pieces();
  if (c.kind == Kind::all_to_all) copy_own_block(from() + own() * c.count * bytes(), {own() * c.count, c.count});
  const int64_t slots = c.kind == Kind::barrier ? 1 : (sends_totals_ ? 2 : 1) * pieces_;
  const bool broadcast = c.kind == Kind::broadcast, root = broadcast && c.peer == own();
  begin(slots, broadcast && !root ? nullptr : &rings().to_all(), root ? nullptr : &rings().collective_reads);
}

void SharedCollective::plan_pieces() {
  const Call& c = call();
  const int64_t members = channel().size();
  sends_totals_ = c.kind == Kind::all_reduce && c.count * bytes() > slot_bytes() / members;
  part_count_ = sends_totals_ ? (c.count + members - 1) / members : c.count;
  const int64_t in_a_slot = slot_of(0).for_each ? members - 1 : 1;
  piece_count_ = slot_bytes() / in_a_slot / RingSize::alignment * RingSize::alignment / bytes();
  pieces_ = (part_count_ + piece_count_ - 1) / piece_count_;
}

// The terms of a piece precede the totals of the piece before it, so that a member that adds has the next terms
// already.
SharedCollective::Slot SharedCollective::slot_of(int64_t slot) const {
  if (!sends_totals_) {
    return {.for_each = call().kind == Kind::reduce_scatter || call().kind == Kind::all_to_all, .piece = slot};
  }
  const int64_t next = (slot + 1) / 2;
  const bool terms = slot == 0 || (slot % 2 == 1 && next < pieces_);
  return {.for_each = terms, .piece = terms ? next : (slot - 1) / 2};
}

BufferRange SharedCollective::range_of(int64_t member, int64_t piece) const {
  const Call& c = call();
  const bool in_blocks = c.kind == Kind::all_gather || c.kind == Kind::all_to_all || c.kind == Kind::reduce_scatter;
  const int64_t total = c.count * (in_blocks ? channel().size() : 1);
  const BufferRange part = sends_totals_ || in_blocks ? part_of(member, part_count_, total) : BufferRange{0, total};
  return piece_of(part, piece, piece_count_);
}

int64_t SharedCollective::offset_in_slot(const Slot& slot, int64_t writer, int64_t member) const {
  if (!slot.for_each) return 0;
  return (member < writer ? member : member - 1) * piece_count_ * bytes();
}

bool SharedCollective::is_read(int64_t member) const {
  return member != own() && (call().kind != Kind::broadcast || member == call().peer);
}

bool SharedCollective::adds(const Slot& slot) const {
  return call().kind == Kind::reduce_scatter || (call().kind == Kind::all_reduce && slot.for_each == sends_totals_);
}

bool SharedCollective::may_fill(int64_t slot) const {
  const Slot it = slot_of(slot);
  const bool totals = sends_totals_ && !it.for_each;
  return !totals || num_read() > slot_with_terms(it.piece);
}

void SharedCollective::fill(int64_t slot, std::byte* room) {
  const Slot it = slot_of(slot);
  if (!it.for_each) {
    const BufferRange range = range_of(own(), it.piece);
    const bool own_block = call().kind == Kind::all_gather;
    const char* const source =
        (sends_totals_ ? to() : from()) + (own_block ? it.piece * piece_count_ : range.begin) * bytes();
    copy(room, source, range.count * bytes());
    // The block is still in the caches.
    if (own_block) copy_own_block(source, range);
    return;
  }
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (member == own()) continue;
    const BufferRange range = range_of(member, it.piece);
    copy(room + offset_in_slot(it, own(), member), from() + range.begin * bytes(), range.count * bytes());
  }
}

void SharedCollective::copy_own_block(const char* source, const BufferRange& target) {
  char* const own_target = to() + target.begin * bytes();
  if (source != own_target) copy(own_target, source, target.count * bytes());
}

bool SharedCollective::read(int64_t slot) {
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (!is_read(member)) continue;
    const std::byte*& found = found_[static_cast<size_t>(member)];
    found = find_slot(rings().from_all(member), member);
    if (found == nullptr) return false;
  }
  const Slot it = slot_of(slot);
  if (adds(it)) add(it);
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (!is_read(member)) continue;
    const BufferRange range = range_of(member, it.piece);
    if (!adds(it)) {
      copy(to() + range.begin * bytes(), found_[static_cast<size_t>(member)] + offset_in_slot(it, member, own()),
           range.count * bytes());
    }
    rings().from_all(member).release();
  }
  return true;
}

void SharedCollective::add(const Slot& slot) {
  const BufferRange range = range_of(own(), slot.piece);
  if (range.count == 0) return;
  std::vector<const void*> terms;
  terms.reserve(static_cast<size_t>(channel().size()));
  for (const int64_t member : channel().in_rank_order()) {
    terms.push_back(member == own() ? static_cast<const void*>(from() + range.begin * bytes())
                                    : found_[static_cast<size_t>(member)] + offset_in_slot(slot, member, own()));
  }
  const int64_t begin = call().kind == Kind::reduce_scatter ? slot.piece * piece_count_ : range.begin;
  void* const total[] = {to() + begin * bytes()};
  sum_members(call().type, terms, total, 0, range.count);
}

}  // namespace

MpiOperationPointer start_in_shared_memory(std::shared_ptr<MpiChannel> channel, const Call& call) {
  if (is_collective(call)) return std::make_shared<SharedCollective>(std::move(channel), call);
  return std::make_shared<SharedMessage>(std::move(channel), call);
}

}  // namespace terrace::comm
