// Sends and receives the messages of an exchange.
#include "terrace/data/staging/share_exchange.h"

#include <algorithm>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

std::span<const std::byte> sent_if(bool sends, std::span<const uint32_t> numbers) {
  return sends ? std::as_bytes(numbers) : std::span<const std::byte>();
}

std::span<std::byte> received_if(bool receives, std::span<uint32_t> numbers) {
  return receives ? std::as_writable_bytes(numbers) : std::span<std::byte>();
}

// The places of the first numbers of a message.
enum Place : size_t { ends = 0, count = 1, first = 2 };

}  // namespace

ShareExchange::ShareExchange(std::shared_ptr<NodeLinks> links, std::shared_ptr<const StagingBuffer> buffer,
                             const Extents& extents)
    : links_(std::move(links)),
      buffer_(std::move(buffer)),
      extents_(extents),
      of_turn_(std::clamp<uint64_t>(turn_bytes / extents.extent_bytes(), 1, most_of_turn)) {}

void ShareExchange::run(ExchangeSide& side) {
  if (giver_ended_ && taker_ended_) return;
  open(side);
  while (takes_ || gives_) turn(side);
  for (const uint32_t extent : std::exchange(held_, {})) side.release(extent);
}

// Each node names all the extents that it lacks, so that its giver keeps these until it is asked for them.
void ShareExchange::open(ExchangeSide& side) {
  const bool ending = side.ending();
  const Numbers wanted = ending ? Numbers() : side.missing(extents_.count());
  const Numbers own = {ending, static_cast<uint32_t>(wanted.size())};
  Numbers of_taker(own.size()), of_giver(own.size());
  links_->up(sent_if(!giver_ended_, own), received_if(!taker_ended_, of_taker));
  links_->down(sent_if(!taker_ended_, own), received_if(!giver_ended_, of_giver));
  giver_ended_ = giver_ended_ || ending || of_giver[ends] != 0;
  taker_ended_ = taker_ended_ || ending || of_taker[ends] != 0;
  takes_ = !giver_ended_ && !wanted.empty();
  gives_ = !taker_ended_ && of_taker[count] > 0;
  has_room_ = true;
  Numbers asked_for(gives_ ? of_taker[count] : 0);
  links_->up(sent_if(takes_, wanted), received_if(gives_, asked_for));
  for (const uint32_t extent : asked_for) {
    TERRACE_CHECK(extent < extents_.count(), "extent {} of {}", extent, extents_.count());
    side.hold(extent);
  }
  held_ = std::move(asked_for);
}

void ShareExchange::turn(ExchangeSide& side) {
  const bool ending = side.ending();
  Numbers wanted = ending || !has_room_ || !takes_ ? Numbers() : side.missing(of_turn_);
  Numbers question(first + of_turn_), asked(first + of_turn_);
  question[ends] = ending;
  question[count] = static_cast<uint32_t>(wanted.size());
  std::ranges::copy(wanted, question.begin() + first);
  links_->up(sent_if(takes_, question), received_if(gives_, asked));
  giver_ended_ = giver_ended_ || (takes_ && ending);
  taker_ended_ = taker_ended_ || (gives_ && asked[ends] != 0);
  takes_ = takes_ && !wanted.empty();
  gives_ = gives_ && asked[count] > 0;
  TERRACE_CHECK(asked[count] <= of_turn_, "{} extents asked for in a turn of {}", asked[count], of_turn_);
  const std::span<const uint32_t> given = std::span(asked).subspan(first, gives_ ? asked[count] : 0);

  Numbers answer(first + of_turn_), answered(first + of_turn_);
  answer[ends] = ending;
  sent_.clear();
  if (!ending) std::ranges::copy(collect(given), answer.begin() + first);
  links_->down(sent_if(gives_, answer), received_if(takes_, answered));
  const std::span<const uint32_t> present = std::span(answered).subspan(first, wanted.size());
  size_t coming = 0;
  for (size_t i = 0; i < wanted.size(); ++i) coming += present[i] != 0 ? extents_.place(wanted[i]).bytes : 0;
  received_.resize(coming);
  links_->down(sent_, received_);

  for (const uint32_t extent : given) side.release(extent);
  taker_ended_ = taker_ended_ || (gives_ && ending);
  giver_ended_ = giver_ended_ || (takes_ && answered[ends] != 0);
  gives_ = gives_ && !taker_ended_;
  if (takes_ && !giver_ended_) has_room_ = side.store(arrived(wanted, present));
  takes_ = takes_ && !giver_ended_;
}

ShareExchange::Numbers ShareExchange::collect(std::span<const uint32_t> extents) {
  Numbers present;
  for (const uint32_t extent : extents) {
    const uint64_t bytes = extents_.place(extent).bytes;
    const size_t before = sent_.size();
    sent_.resize(before + bytes);
    present.push_back(buffer_->read(extent, 0, std::span(sent_).subspan(before)) ? 1 : 0);
    if (present.back() == 0) sent_.resize(before);
  }
  return present;
}

std::vector<ExchangeSide::Received> ShareExchange::arrived(std::span<const uint32_t> extents,
                                                           std::span<const uint32_t> present) const {
  std::vector<ExchangeSide::Received> list;
  size_t begin = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const size_t bytes = present[i] != 0 ? extents_.place(extents[i]).bytes : 0;
    list.push_back({extents[i], std::span(received_).subspan(begin, bytes)});
    begin += bytes;
  }
  return list;
}

}  // namespace terrace::data
