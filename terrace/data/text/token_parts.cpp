// Writes tokens and lengths of documents, and the counts of each input file.
#include "terrace/data/text/token_parts.h"

#include <algorithm>
#include <fstream>
#include <span>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json_record.h"
#include "terrace/data/text/check_inputs.h"

namespace terrace::data {

void EncodedText::add(const EncodedText& more) {
  documents += more.documents;
  tokens += more.tokens;
  text_bytes += more.text_bytes;
  empty_documents += more.empty_documents;
  changed_parts += more.changed_parts;
  malformed_lines += more.malformed_lines;
  counts += more.counts;
  const size_t room = malformed_shown - std::min(malformed_shown, first_malformed.size());
  const size_t taken = std::min(room, more.first_malformed.size());
  first_malformed.insert(first_malformed.end(), more.first_malformed.begin(),
                         more.first_malformed.begin() + static_cast<std::ptrdiff_t>(taken));
}

void members_of(auto& json, MaybeConst<MalformedLine> auto& one) {
  json("file", one.file)("line", one.line)("reason", one.reason);
}

void members_of(auto& json, MaybeConst<EncodedText> auto& one) {
  json("documents", one.documents)("tokens", one.tokens)("text_bytes", one.text_bytes);
  json("empty_documents", one.empty_documents)("malformed_lines", one.malformed_lines);
  json("first_malformed", one.first_malformed)("invalid_bytes", one.counts.invalid_bytes);
  json("replaced_bytes", one.counts.replaced_bytes)("special_texts", one.counts.special_texts);
  json("space_marks", one.counts.space_marks)("unknown_tokens", one.counts.unknown_tokens);
  json("changed_parts", one.changed_parts);
}

Json EncodedText::json_of_counts() const { return json_of_record(*this); }

EncodedText EncodedText::of_json(const Json& counts) { return record_of<EncodedText>(counts); }

std::vector<std::string> token_channels() { return {"tokens", "lengths"}; }

void TokenPartsWriter::take(const EncodedBlock& block) {
  const auto file = static_cast<size_t>(block.file - files_.data());
  while (file_ < file) finish_file();
  size_t begin = 0;
  const std::span<const int32_t> tokens = block.tokens;
  for (const size_t end : block.ends) {
    append_tokens(tokens.subspan(begin, end - begin));
    end_document();
    begin = end;
  }
  append_tokens(tokens.subspan(begin));
  of_file_.text_bytes += block.text_bytes;
  of_file_.empty_documents += block.empty_documents;
  of_file_.changed_parts += block.changed_parts;
  of_file_.counts += block.counts;
  for (const MalformedLine& line : block.malformed) note(line);
  if (of_rank_.malformed_lines > max_malformed_) {
    throw_malformed(of_rank_.malformed_lines, max_malformed_, of_rank_.first_malformed);
  }
}

void TokenPartsWriter::finish() {
  while (file_ < files_.size()) finish_file();
  parts_.record();
}

void TokenPartsWriter::append_tokens(std::span<const int32_t> tokens) {
  if (type_ == TokenType::uint16) {
    narrow_.assign(tokens.begin(), tokens.end());
    parts_.append(tokens_channel, std::as_bytes(std::span(narrow_)));
  } else {
    parts_.append(tokens_channel, std::as_bytes(tokens));
  }
  document_tokens_ += tokens.size();
  of_file_.tokens += tokens.size();
  tokens_ += tokens.size();
}

void TokenPartsWriter::end_document() {
  parts_.append(lengths_channel, std::as_bytes(std::span(&document_tokens_, 1)));
  document_tokens_ = 0;
  ++of_file_.documents;
}

void TokenPartsWriter::finish_file() {
  if (document_tokens_ > 0) end_document();
  parts_.finish_file(parts_.own().at(file_),
                     of_file_.json_of_counts().dump(-1, ' ', false, Json::error_handler_t::replace));
  of_file_ = {};
  ++file_;
}

void TokenPartsWriter::note(const MalformedLine& line) {
  const EncodedText one{.malformed_lines = 1, .first_malformed = {line}};
  if (of_rank_.first_malformed.size() < malformed_shown) {
    log_warning("{}:{}: malformed: {}", line.file, line.line, line.reason);
  }
  of_file_.add(one);
  of_rank_.add(one);
}

void add_lengths(CorpusWriter& writer, const std::filesystem::path& folder, const FilePart& part) {
  const PartRange& range = part.ranges.at(lengths_channel);
  std::ifstream file(folder / range.file, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(range.offset));
  std::vector<uint64_t> lengths;
  for (uint64_t left = range.bytes / sizeof(uint64_t); left > 0; left -= lengths.size()) {
    lengths.resize(std::min<uint64_t>(left, 1 << 13));
    const auto bytes = static_cast<std::streamsize>(lengths.size() * sizeof(uint64_t));
    if (!file.read(reinterpret_cast<char*>(lengths.data()), bytes)) {
      throw UserError("cannot read " + (folder / range.file).string(), ExitCode::failure);
    }
    for (const uint64_t tokens : lengths) writer.add_document_elsewhere(tokens);
  }
}

}  // namespace terrace::data
