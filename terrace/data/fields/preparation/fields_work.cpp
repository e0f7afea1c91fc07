// Cuts the times of pieces into the parts of ranks.
#include "terrace/data/fields/preparation/fields_work.h"

#include <algorithm>

namespace terrace::data {
namespace {

const std::vector<int64_t>& axis_of_piece(const FieldsPlan& plan, size_t piece) {
  return plan.axes[plan.axis_of_file[plan.pieces[piece].file]];
}

bool is_taken(int64_t output) { return output >= 0; }

// Returns the number of values that are taken of one time of the piece.
uint64_t values_of_time(const FieldsPlan& plan, size_t piece) {
  return static_cast<uint64_t>(std::ranges::count_if(plan.pieces[piece].outputs, is_taken)) *
         static_cast<uint64_t>(plan.description.places());
}

}  // namespace

FieldsWork all_work(const FieldsPlan& plan) {
  FieldsWork work;
  for (size_t piece = 0; piece < plan.pieces.size(); ++piece) {
    if (!axis_of_piece(plan, piece).empty()) work.push_back({piece, 0, axis_of_piece(plan, piece).size()});
  }
  return work;
}

FieldsWork work_left(const FieldsWork& all, const FieldsWork& done) {
  FieldsWork left;
  auto next = done.begin();
  for (PieceTimes times : all) {
    while (next != done.end() &&
           (next->piece < times.piece || (next->piece == times.piece && next->end <= times.first))) {
      ++next;
    }
    for (auto one = next; one != done.end() && one->piece == times.piece && one->first < times.end; ++one) {
      if (one->first > times.first) left.push_back({times.piece, times.first, one->first});
      times.first = std::min(times.end, std::max(times.first, one->end));
    }
    if (times.first < times.end) left.push_back(times);
  }
  return left;
}

void add_work(FieldsWork& done, const PieceTimes& more) {
  const auto is_before = [](const PieceTimes& a, const PieceTimes& b) {
    return a.piece < b.piece || (a.piece == b.piece && a.first < b.first);
  };
  auto at = done.insert(std::ranges::upper_bound(done, more, is_before), more);
  if (at != done.begin()) --at;
  while (at + 1 != done.end()) {
    const auto next = at + 1;
    if (at->piece == next->piece && next->first <= at->end) {
      at->end = std::max(at->end, next->end);
      done.erase(next);
    } else if (is_before(*at, more)) {
      ++at;
    } else {
      break;
    }
  }
}

uint64_t values_of(const FieldsPlan& plan, const FieldsWork& work) {
  uint64_t values = 0;
  for (const PieceTimes& times : work) {
    const auto begin = axis_of_piece(plan, times.piece).begin();
    const auto taken = std::count_if(begin + static_cast<std::ptrdiff_t>(times.first),
                                     begin + static_cast<std::ptrdiff_t>(times.end), is_taken);
    values += static_cast<uint64_t>(taken) * values_of_time(plan, times.piece);
  }
  return values;
}

FieldsWork work_of_rank(const FieldsPlan& plan, const FieldsWork& work, int64_t rank, int64_t ranks) {
  const uint64_t all = values_of(plan, work), count = static_cast<uint64_t>(ranks);
  const auto owner = [&](uint64_t values_before) {
    return all == 0 ? 0 : std::min<int64_t>(ranks - 1, static_cast<int64_t>(values_before * count / all));
  };
  FieldsWork own;
  uint64_t before = 0;
  for (const PieceTimes& times : work) {
    const std::vector<int64_t>& axis = axis_of_piece(plan, times.piece);
    const uint64_t of_time = values_of_time(plan, times.piece);
    for (size_t time = times.first; time < times.end; ++time) {
      if (owner(before) == rank) add_work(own, {times.piece, time, time + 1});
      before += is_taken(axis[time]) ? of_time : 0;
    }
  }
  return own;
}

}  // namespace terrace::data
