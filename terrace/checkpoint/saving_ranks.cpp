// Implements the agreement by collectives on a few numbers. Texts are sent after their lengths.
#include "terrace/checkpoint/saving_ranks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "terrace/base/text/json.h"

namespace terrace::checkpoint {
namespace {

constexpr comm::Label saving = {.what = "save checkpoint"};

}  // namespace

int64_t SavingRanks::sum(int64_t own) const {
  if (!is_single()) ranks_->all_reduce(&own, 1, comm::Type::int64, saving).wait();
  return own;
}

int64_t SavingRanks::broadcast_from_first(int64_t value) const {
  if (!is_single()) ranks_->broadcast(&value, 1, comm::Type::int64, 0, saving).wait();
  return value;
}

void SavingRanks::wait_for_all() const {
  if (!is_single()) ranks_->barrier(saving).wait();
}

void SavingRanks::throw_if_any_failed(const std::optional<UserError>& failure) const {
  if (is_single()) {
    if (failure) throw UserError(*failure);
    return;
  }
  struct Word {
    int64_t failed, code, length;
  };
  std::string text = failure ? failure->what() : "";
  const Word own{failure.has_value(), failure ? static_cast<int64_t>(failure->code) : 0,
                 static_cast<int64_t>(text.size())};
  std::vector<Word> words(static_cast<size_t>(ranks_->size()));
  ranks_->all_gather(&own, words.data(), sizeof(Word) / sizeof(int64_t), comm::Type::int64, saving).wait();
  const auto found = std::ranges::find_if(words, [](const Word& word) { return word.failed != 0; });
  if (found == words.end()) return;
  text.resize(static_cast<size_t>(found->length));
  ranks_->broadcast(text.data(), found->length, comm::Type::uint8, found - words.begin(), saving).wait();
  throw UserError(text, static_cast<ExitCode>(found->code));
}

std::vector<std::string> SavingRanks::gather_texts(std::string own) const {
  if (is_single()) return {std::move(own)};
  std::vector<int64_t> lengths(static_cast<size_t>(ranks_->size()));
  const auto length = static_cast<int64_t>(own.size());
  ranks_->all_gather(&length, lengths.data(), 1, comm::Type::int64, saving).wait();
  if (!is_first()) {
    ranks_->send(own.data(), length, comm::Type::uint8, 0, saving).wait();
    return {};
  }
  std::vector<std::string> texts = {std::move(own)};
  for (int64_t member = 1; member < ranks_->size(); ++member) {
    std::string& text = texts.emplace_back(static_cast<size_t>(lengths[static_cast<size_t>(member)]), '\0');
    ranks_->receive(text.data(), std::ssize(text), comm::Type::uint8, member, saving).wait();
  }
  return texts;
}

std::string SavingRanks::broadcast_text(std::string own, int64_t from) const {
  if (is_single()) return own;
  auto length = static_cast<int64_t>(own.size());
  ranks_->broadcast(&length, 1, comm::Type::int64, from, saving).wait();
  own.resize(static_cast<size_t>(length));
  if (length > 0) ranks_->broadcast(own.data(), length, comm::Type::uint8, from, saving).wait();
  return own;
}

std::vector<std::string> SavingRanks::all_texts(std::string own) const {
  const Json all = gather_texts(std::move(own));
  return Json::parse(broadcast_text(all.dump())).get<std::vector<std::string>>();
}

}  // namespace terrace::checkpoint
