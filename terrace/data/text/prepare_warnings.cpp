// Says what a preparation of text left out or changed, and why.
#include "terrace/base/text/plural.h"
#include "terrace/data/text/prepare.h"

namespace terrace::data {
namespace {

// Returns why parts of documents do not decode to their bytes.
std::string reasons_of_changes(const PrepareReport& report) {
  std::vector<std::string> reasons;
  if (report.tokenizer_changes_text) reasons.emplace_back("normalises text");
  if (report.counts.unknown_tokens > 0) reasons.emplace_back("lacks characters");
  if (report.counts.replaced_bytes > 0) reasons.emplace_back("lacks bytes outside of UTF-8");
  if (report.counts.space_marks > 0) reasons.emplace_back("takes U+2581 for a space");
  if (report.counts.special_texts > 0 && report.special_tokens == SpecialTokens::keep) {
    reasons.emplace_back("made control tokens, which have no text");
  }
  if (reasons.empty()) return "for no reason that is known, which is a defect: please report it";
  return fmt::format("since the tokenizer {}", fmt::join(reasons, ", "));
}

}  // namespace

std::vector<std::string> PrepareReport::warnings() const {
  std::vector<std::string> lines;
  const auto add = [&](uint64_t count, std::string_view one, std::string_view several, std::string_view what) {
    if (count > 0) lines.push_back(fmt::format("{} {}", counted(count, one, several), what));
  };
  const uint64_t escaped = counts.invalid_bytes - counts.replaced_bytes;
  add(malformed_lines, "malformed line was", "malformed lines were", "left out");
  add(empty_documents, "empty document was", "empty documents were", "left out");
  add(escaped, "byte outside of UTF-8 was", "bytes outside of UTF-8 were", "escaped as byte tokens");
  add(counts.replaced_bytes, "byte outside of UTF-8 was", "bytes outside of UTF-8 were",
      "replaced by U+FFFD, since the tokenizer has no tokens for them");
  add(counts.space_marks, "character U+2581 was", "characters U+2581 were",
      "encoded as spaces, as SentencePiece encodes them");
  add(counts.special_texts, "text of a control token was", "texts of control tokens were",
      special_tokens == SpecialTokens::keep
          ? "encoded as that token (--special-tokens keep)"
          : "encoded as plain text; --special-tokens keep makes control tokens of them");
  add(counts.unknown_tokens, "character is", "characters are",
      "unknown to the tokenizer and lost; one with byte fallback keeps them");
  add(changed_parts, "part of a document does", "parts of documents do",
      fmt::format("not decode to the same bytes, {}", reasons_of_changes(*this)));
  return lines;
}

}  // namespace terrace::data
