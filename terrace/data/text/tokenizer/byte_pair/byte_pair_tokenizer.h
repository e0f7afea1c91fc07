// The tokenizer of a byte-level BPE.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/byte_pair_model.h"
#include "terrace/data/text/tokenizer/byte_pair/word_splitter.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::data {

// The ids equal those of the tokenizers package without its post-processor, which would add tokens of templates. Bytes
// outside of UTF-8, which that package does not accept, are separate words: the byte's token, or where it has none,
// U+FFFD.
class BytePairTokenizer : public Tokenizer {
 public:
  // `name` is for error messages about repeated ids, large gaps between ids, merges of unknown tokens, and bytes of
  // UTF-8 without a token. The end token is the first of <|endoftext|>, <|end_of_text|>, </s>, <|eos|>, <eos>,
  // <|im_end|> and DeepSeek's <｜end▁of▁sentence｜> that is an added special token, else an added token, which then is
  // special, else the only special token.
  BytePairTokenizer(BytePairModel model, const std::string& name);

  bool has_bytes() const override { return has_bytes_; }
  bool changes_text() const override {
    return model_.normal_form_c || model_.add_prefix_space || splitter_.drops_text();
  }
  std::unique_ptr<TextEncoder> make_encoder(SpecialTokens special) const override;
  size_t cut(std::string_view text) const override;
  const BytePairModel& model() const { return model_; }

 private:
  friend class BytePairEncoder;

  // The token that two neighbouring tokens merge to.
  struct Merge {
    int32_t rank, result;
  };
  static uint64_t pair_key(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  void read_vocabulary(const std::string& name);
  void read_merges(const std::string& name);
  void read_added(const std::string& name);
  void find_end_token();
  void find_word_rules();
  bool keeps_words_apart(std::string_view left, std::string_view right) const;
  bool may_cut(std::string_view text, size_t at) const;

  BytePairModel model_;
  WordSplitter splitter_;
  bool prefixes_section_ = false;  // a text, and what follows an added token, gets a space in front
  bool has_bytes_ = true;
  std::vector<int32_t> byte_ids_ = std::vector<int32_t>(256, -1);
  std::unordered_map<uint64_t, Merge> merges_;
  std::unordered_map<std::string, int32_t> words_;  // by bytes; filled where ignore_merges is set
  TokenMatcher plain_added_, normalized_added_;     // the latter in the normalizer's form
  bool spaces_start_words_ = true;                  // no word extends across a space that follows another character
  bool newlines_end_words_ = true;                  // no word extends across a newline between two characters
};

}  // namespace terrace::data
