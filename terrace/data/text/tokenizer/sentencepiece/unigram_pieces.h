// The pieces of a unigram model and their scores, and the best way to spell a text by them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_model.h"

namespace terrace::data {

// SentencePiece takes, of all ways to spell a text, the one whose scores have the largest sum (Kudo 2018). Many ways of
// real texts have equal sums, such as those of "------" by "-" and "--", and the rounding of the sum of all scores
// before decides. So this computes the sums as SentencePiece 0.2.3 does (Model::EncodeOptimized), in fp32 from the
// beginning of the text; earlier versions of the library round otherwise. Safe to share between threads.
class UnigramPieces {
 public:
  UnigramPieces() = default;
  explicit UnigramPieces(const SentencePieceModel& model);

  // Calls take(piece, id) for the pieces of valid text in their order; id is -1 for a character without a piece.
  void spell(std::string_view text, const std::function<void(std::string_view, int32_t)>& take) const;

 private:
  static constexpr uint32_t none = 0;  // the root is no node's child

  struct Node {
    uint32_t first_child = 0;
    uint32_t num_children = 0;
    int32_t id = -1;
    float score = 0;
  };
  void build(std::vector<std::pair<std::string_view, int32_t>> pieces, const SentencePieceModel& model);
  uint32_t child(uint32_t node, unsigned char byte) const {
    if (node == 0) return of_root_[byte];
    const unsigned char* begin = byte_.data() + nodes_[node].first_child;
    const unsigned char* end = begin + nodes_[node].num_children;
    const unsigned char* found = std::lower_bound(begin, end, byte);
    return found != end && *found == byte ? static_cast<uint32_t>(found - byte_.data()) : none;
  }

  std::vector<Node> nodes_;          // a trie; the children of a node are neighbours
  std::vector<unsigned char> byte_;  // by node: the last byte of its text
  std::array<uint32_t, 256> of_root_ = {};
  size_t longest_ = 4;  // bytes of a piece, and at least of a character
  float unknown_score_ = 0;
};

}  // namespace terrace::data
