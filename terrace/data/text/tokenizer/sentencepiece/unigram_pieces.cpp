// Finds the best path through the pieces of a text, from its beginning to its end.
#include "terrace/data/text/tokenizer/sentencepiece/unigram_pieces.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

using PieceType = SentencePieceModel::PieceType;

constexpr float unknown_penalty = 10.0F;
constexpr float largest_sum = 100000.0F;        // sums start from zero behind it, so that they stay exact enough
constexpr size_t least_span = size_t{1} << 12;  // bytes after which a path that is certain is handed on

// The best of the paths that end at a byte of the text.
struct PathEnd {
  static constexpr size_t nowhere = SIZE_MAX;
  size_t begin = nowhere;  // of the last piece
  int32_t id = -1;
  float sum = 0;

  void offer(size_t from, int32_t piece, float offered) {
    if (begin != nowhere && !(offered > sum)) return;
    *this = {.begin = from, .id = piece, .sum = offered};
  }
};

}  // namespace

UnigramPieces::UnigramPieces(const SentencePieceModel& model) {
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  float least = std::numeric_limits<float>::max();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.type == PieceType::normal) least = std::min(least, piece.score);
    if (piece.type != PieceType::normal && piece.type != PieceType::user_defined) continue;
    pieces.emplace_back(piece.text, static_cast<int32_t>(id));
    longest_ = std::max(longest_, piece.text.size());
  }
  unknown_score_ = least - unknown_penalty;
  std::sort(pieces.begin(), pieces.end());
  build(std::move(pieces), model);
}

void UnigramPieces::build(std::vector<std::pair<std::string_view, int32_t>> pieces, const SentencePieceModel& model) {
  struct Open {
    uint32_t node;
    size_t first, last, depth;  // the pieces that begin with the node's text, and its bytes
  };
  nodes_.resize(1);
  byte_.resize(1);
  std::deque<Open> open{{.node = 0, .first = 0, .last = pieces.size(), .depth = 0}};
  for (; !open.empty(); open.pop_front()) {
    auto [node, first, last, depth] = open.front();
    if (first < last && pieces[first].first.size() == depth) {
      const int32_t id = pieces[first++].second;
      const auto& piece = model.pieces[static_cast<size_t>(id)];
      nodes_[node].id = id;
      nodes_[node].score = piece.type == PieceType::user_defined
                               ? static_cast<float>(0.1 * (static_cast<double>(piece.text.size()) - 1))
                               : piece.score;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (first < last) {
      const char byte = pieces[first].first[depth];
      if (node == 0) of_root_[static_cast<unsigned char>(byte)] = static_cast<uint32_t>(nodes_.size());
      size_t end = first;
      while (end < last && pieces[end].first[depth] == byte) ++end;
      open.push_back({.node = static_cast<uint32_t>(nodes_.size()), .first = first, .last = end, .depth = depth + 1});
      ++nodes_[node].num_children;
      nodes_.emplace_back();
      byte_.push_back(static_cast<unsigned char>(byte));
      first = end;
    }
  }
}

void UnigramPieces::spell(std::string_view text, const std::function<void(std::string_view, int32_t)>& take) const {
  std::vector<PathEnd> ends(1);  // by byte from `origin`
  std::vector<std::pair<size_t, size_t>> spans;
  size_t origin = 0, frontier = 0;
  const auto end_at = [&](size_t at) -> PathEnd& { return ends[at - origin]; };
  const auto hand_on = [&](size_t until) {
    spans.clear();
    for (size_t at = until; at > origin; at = end_at(at).begin) spans.emplace_back(end_at(at).begin, at);
    for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
      take(text.substr(span->first, span->second - span->first), end_at(span->second).id);
    }
    const float sum = end_at(until).sum;
    std::fill(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(until - origin + 1), PathEnd{});
    ends.front().sum = sum;
    origin = until;
  };
  for (size_t at = 0; at < text.size();) {
    // Where no piece reaches further, all paths meet.
    if (frontier == at && at - origin >= least_span) hand_on(at);
    if (ends.size() <= at - origin + longest_) ends.resize(2 * (at - origin + longest_) + least_span);
    float sum = end_at(at).sum;
    if (sum < -largest_sum || sum > largest_sum) {
      for (size_t later = at; later <= frontier; ++later) {
        if (later == at || end_at(later).begin != PathEnd::nowhere) end_at(later).sum -= sum;
      }
      sum = 0;
    }
    const size_t length = character_length(text.substr(at, 4));
    bool has_character = false;
    size_t behind = at;
    for (uint32_t node = 0;
         behind < text.size() && (node = child(node, static_cast<unsigned char>(text[behind]))) != none;) {
      ++behind;
      if (nodes_[node].id < 0) continue;
      frontier = std::max(frontier, behind);
      end_at(behind).offer(at, nodes_[node].id, nodes_[node].score + sum);
      has_character = has_character || behind == at + length;
    }
    if (!has_character) {
      frontier = std::max(frontier, at + length);
      end_at(at + length).offer(at, -1, unknown_score_ + sum);
    }
    at += length;
  }
  hand_on(text.size());
}

}  // namespace terrace::data
