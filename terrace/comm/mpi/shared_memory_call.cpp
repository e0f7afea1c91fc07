// Calls among processes of one machine, through boxes in memory that they share. A call is a row of slots in each box:
// what they hold, the members know from the call.
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

SlotMark mark_of(const Call& call) {
  return {.kind = call.kind == Kind::receive ? Kind::send : call.kind,
          .type = call.type,
          .count = call.count,
          .peer = call.kind == Kind::broadcast ? call.peer : -1};
}

// A rank only knows its own label.
[[noreturn]] void disagree(const MpiOperation& operation, int64_t other, const SlotMark& mark) {
  const mesh::Group& group = operation.channel().group();
  Call theirs = {.kind = mark.kind, .type = mark.type, .count = mark.count, .sequence = operation.call().sequence};
  theirs.peer = is_collective(theirs) ? mark.peer : operation.channel().member();
  throw CommError(fmt::format("ranks disagree on a call: rank {} makes {}, rank {} makes {}",
                              group.ranks[static_cast<size_t>(operation.channel().member())],
                              with_contents(group, operation.call()), group.ranks[static_cast<size_t>(other)],
                              with_contents(group, theirs)));
}

void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Slots are filled and read in their order, each before the next, and calls take their turns.
class SharedOperation : public MpiOperation {
 public:
  SharedOperation(std::shared_ptr<MpiChannel> channel, const Call& call)
      : MpiOperation(std::move(channel), call), bytes_(size_of(call.type)), mark_(mark_of(call)) {}

  bool advance() override;

 protected:
  // Fills before anyone waits, so that the others find what they need.
  void begin(int64_t slots, BoxWriter* writer, Turns* reads);
  SharedBoxes& boxes() const { return *channel().boxes(); }
  int64_t slot_bytes() const { return boxes().size().slot_bytes; }
  int64_t bytes() const { return bytes_; }  // of an element
  const char* from() const { return static_cast<const char*>(call().from); }
  char* to() const { return static_cast<char*>(call().to); }

  virtual bool may_fill(int64_t /*slot*/) const { return true; }
  virtual void fill(int64_t slot, std::byte* room) = 0;
  virtual bool read(int64_t slot) = 0;  // whether it was there
  const std::byte* look(BoxReader& box, int64_t writer) const;

  int64_t num_read() const { return num_read_; }

 private:
  bool fill_next();
  bool read_next();

  const int64_t bytes_;
  const SlotMark mark_;
  BoxWriter* writer_ = nullptr;  // none where this member only reads
  Turns* reads_ = nullptr;       // none where it only fills
  uint64_t fill_turn_ = 0, read_turn_ = 0;
  int64_t slots_ = 0, num_filled_ = 0, num_read_ = 0;
};

void SharedOperation::begin(int64_t slots, BoxWriter* writer, Turns* reads) {
  slots_ = slots;
  if (slots == 0) return;
  writer_ = writer;
  reads_ = reads;
  if (writer_ != nullptr) {
    fill_turn_ = writer_->turns.take();
  } else {
    num_filled_ = slots;
  }
  if (reads_ != nullptr) {
    read_turn_ = reads_->take();
  } else {
    num_read_ = slots;
  }
  while (fill_next()) {
  }
}

// No further than once around the box, as the engine's lock is held meanwhile.
bool SharedOperation::advance() {
  bool moved = true;
  for (int64_t i = 0; moved && i < boxes().size().slots; ++i) {
    moved = fill_next();
    moved |= read_next();
  }
  return num_filled_ == slots_ && num_read_ == slots_;
}

bool SharedOperation::fill_next() {
  if (num_filled_ == slots_ || !writer_->turns.is_at(fill_turn_) || !may_fill(num_filled_)) return false;
  std::byte* const room = writer_->room();
  if (room == nullptr) return false;
  fill(num_filled_, room);
  writer_->fill(mark_);
  if (++num_filled_ == slots_) writer_->turns.end_one();
  return true;
}

bool SharedOperation::read_next() {
  // What a call writes may be what it has yet to hand over.
  if (num_read_ == slots_ || num_read_ == num_filled_ || !reads_->is_at(read_turn_)) return false;
  if (!read(num_read_)) return false;
  if (++num_read_ == slots_) reads_->end_one();
  return true;
}

const std::byte* SharedOperation::look(BoxReader& box, int64_t writer) const {
  const std::byte* const found = box.slot();
  if (found != nullptr && mark_ != box.mark()) disagree(*this, writer, box.mark());
  return found;
}

class SharedMessage final : public SharedOperation {
 public:
  SharedMessage(std::shared_ptr<MpiChannel> to, const Call& c) : SharedOperation(std::move(to), c) {
    const bool sends = c.kind == Kind::send;
    const int64_t slots = std::max<int64_t>(1, (c.count * bytes() + slot_bytes() - 1) / slot_bytes());
    begin(slots, sends ? &boxes().to(c.peer) : nullptr, sends ? nullptr : &boxes().from(c.peer).turns);
  }

 private:
  int64_t bytes_in(int64_t slot) const { return std::min(slot_bytes(), call().count * bytes() - slot * slot_bytes()); }
  void fill(int64_t slot, std::byte* room) override { copy(room, from() + slot * slot_bytes(), bytes_in(slot)); }
  bool read(int64_t slot) override;
};

bool SharedMessage::read(int64_t slot) {
  BoxReader& box = boxes().from(call().peer);
  const std::byte* const found = look(box, call().peer);
  if (found == nullptr) return false;
  copy(to() + slot * slot_bytes(), found, bytes_in(slot));
  box.leave();
  return true;
}

// Each member fills its box for all and reads those of the others, in a broadcast that of the root. A slot holds one
// piece that is for everyone, or one for each of the others.
class SharedCollective final : public SharedOperation {
 public:
  SharedCollective(std::shared_ptr<MpiChannel> channel, const Call& call);

 private:
  struct Slot {
    bool for_each = false;  // a piece for each of the others
    int64_t piece = 0;
  };

  void cut();
  Slot slot_of(int64_t slot) const;
  int64_t slot_with_terms(int64_t piece) const { return piece == 0 ? 0 : 2 * piece - 1; }
  Span span_of(int64_t member, int64_t piece) const;
  int64_t own() const { return channel().member(); }
  // Where in a slot the writer's piece for a member begins.
  int64_t place(const Slot& slot, int64_t writer, int64_t member) const;
  bool is_read(int64_t member) const;
  bool adds(const Slot& slot) const;
  bool may_fill(int64_t slot) const override;
  void fill(int64_t slot, std::byte* room) override;
  // Of this member's own, where it is not in place.
  void copy_own(const char* source, const Span& target);
  bool read(int64_t slot) override;
  void add(const Slot& slot);

  // An all_reduce whose sums each member hands to the others, and does not leave to all.
  bool hands_out_ = false;
  int64_t part_count_ = 0;   // elements of a member's part, the last one's may be shorter
  int64_t piece_count_ = 0;  // likewise of a piece
  int64_t pieces_ = 0;       // of a part
  std::array<const std::byte*, MpiLimits::most_box_members> found_ = {};  // by member: the slot that is read
};

SharedCollective::SharedCollective(std::shared_ptr<MpiChannel> to_channel, const Call& c)
    : SharedOperation(std::move(to_channel), c) {
  cut();
  if (c.kind == Kind::all_to_all) copy_own(from() + own() * c.count * bytes(), {own() * c.count, c.count});
  const int64_t slots = c.kind == Kind::barrier ? 1 : (hands_out_ ? 2 : 1) * pieces_;
  const bool broadcast = c.kind == Kind::broadcast, root = broadcast && c.peer == own();
  begin(slots, broadcast && !root ? nullptr : &boxes().to_all(), root ? nullptr : &boxes().collective_reads);
}

void SharedCollective::cut() {
  const Call& c = call();
  const int64_t members = channel().size();
  hands_out_ = c.kind == Kind::all_reduce && c.count * bytes() > slot_bytes() / members;
  part_count_ = hands_out_ ? (c.count + members - 1) / members : c.count;
  const int64_t in_a_slot = slot_of(0).for_each ? members - 1 : 1;
  piece_count_ = slot_bytes() / in_a_slot / BoxSize::alignment * BoxSize::alignment / bytes();
  pieces_ = (part_count_ + piece_count_ - 1) / piece_count_;
}

// Terms of one piece lie ahead of the totals of the one before, so that a member that adds finds the next ones there.
SharedCollective::Slot SharedCollective::slot_of(int64_t slot) const {
  if (!hands_out_) {
    return {.for_each = call().kind == Kind::reduce_scatter || call().kind == Kind::all_to_all, .piece = slot};
  }
  const int64_t next = (slot + 1) / 2;
  const bool terms = slot == 0 || (slot % 2 == 1 && next < pieces_);
  return {.for_each = terms, .piece = terms ? next : (slot - 1) / 2};
}

Span SharedCollective::span_of(int64_t member, int64_t piece) const {
  const Call& c = call();
  const bool in_blocks = c.kind == Kind::all_gather || c.kind == Kind::all_to_all || c.kind == Kind::reduce_scatter;
  const int64_t total = c.count * (in_blocks ? channel().size() : 1);
  const Span part = hands_out_ || in_blocks ? part_of(member, part_count_, total) : Span{0, total};
  return piece_of(part, piece, piece_count_);
}

int64_t SharedCollective::place(const Slot& slot, int64_t writer, int64_t member) const {
  if (!slot.for_each) return 0;
  return (member < writer ? member : member - 1) * piece_count_ * bytes();
}

bool SharedCollective::is_read(int64_t member) const {
  return member != own() && (call().kind != Kind::broadcast || member == call().peer);
}

bool SharedCollective::adds(const Slot& slot) const {
  return call().kind == Kind::reduce_scatter || (call().kind == Kind::all_reduce && slot.for_each == hands_out_);
}

bool SharedCollective::may_fill(int64_t slot) const {
  const Slot it = slot_of(slot);
  const bool totals = hands_out_ && !it.for_each;
  return !totals || num_read() > slot_with_terms(it.piece);
}

void SharedCollective::fill(int64_t slot, std::byte* room) {
  const Slot it = slot_of(slot);
  if (!it.for_each) {
    const Span span = span_of(own(), it.piece);
    const bool own_block = call().kind == Kind::all_gather;
    const char* const source =
        (hands_out_ ? to() : from()) + (own_block ? it.piece * piece_count_ : span.begin) * bytes();
    copy(room, source, span.count * bytes());
    // While it is in the caches.
    if (own_block) copy_own(source, span);
    return;
  }
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (member == own()) continue;
    const Span span = span_of(member, it.piece);
    copy(room + place(it, own(), member), from() + span.begin * bytes(), span.count * bytes());
  }
}

void SharedCollective::copy_own(const char* source, const Span& target) {
  char* const own_target = to() + target.begin * bytes();
  if (source != own_target) copy(own_target, source, target.count * bytes());
}

bool SharedCollective::read(int64_t slot) {
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (!is_read(member)) continue;
    const std::byte*& found = found_[static_cast<size_t>(member)];
    found = look(boxes().from_all(member), member);
    if (found == nullptr) return false;
  }
  const Slot it = slot_of(slot);
  if (adds(it)) add(it);
  for (int64_t member = 0; member < channel().size(); ++member) {
    if (!is_read(member)) continue;
    const Span span = span_of(member, it.piece);
    if (!adds(it)) {
      copy(to() + span.begin * bytes(), found_[static_cast<size_t>(member)] + place(it, member, own()),
           span.count * bytes());
    }
    boxes().from_all(member).leave();
  }
  return true;
}

void SharedCollective::add(const Slot& slot) {
  const Span span = span_of(own(), slot.piece);
  if (span.count == 0) return;
  std::vector<const void*> terms;
  terms.reserve(static_cast<size_t>(channel().size()));
  for (const int64_t member : channel().in_rank_order()) {
    terms.push_back(member == own() ? static_cast<const void*>(from() + span.begin * bytes())
                                    : found_[static_cast<size_t>(member)] + place(slot, member, own()));
  }
  const int64_t begin = call().kind == Kind::reduce_scatter ? slot.piece * piece_count_ : span.begin;
  void* const total[] = {to() + begin * bytes()};
  sum_members(call().type, terms, total, 0, span.count);
}

}  // namespace

MpiOperationPointer start_in_boxes(std::shared_ptr<MpiChannel> channel, const Call& call) {
  if (is_collective(call)) return std::make_shared<SharedCollective>(std::move(channel), call);
  return std::make_shared<SharedMessage>(std::move(channel), call);
}

}  // namespace terrace::comm
