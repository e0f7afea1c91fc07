// Divides files of structures into pieces and parses these by the names of the files.
#include "terrace/data/graphs/dataset/graph_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/data/folder_files.h"
#include "terrace/data/graphs/formats/cif.h"
#include "terrace/data/graphs/formats/extended_xyz.h"
#include "terrace/data/graphs/formats/gmsh.h"
#include "terrace/data/graphs/formats/vtk.h"
#include "terrace/data/npz_archive.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t piece_bytes = size_t{1} << 20;
constexpr int64_t nodes_in_piece = 20'000;  // of point sets
constexpr std::array<const char*, 8> graph_endings = {".xyz", ".extxyz", ".cif", ".msh",
                                                      ".vtk", ".npz",    ".h5",  ".hdf5"};

bool is_named_as_graphs(const fs::path& path) {
  return std::ranges::find(graph_endings, path.extension().string()) != graph_endings.end();
}

bool has_frames(const fs::path& path) { return path.extension() == ".xyz" || path.extension() == ".extxyz"; }
bool has_point_sets(const fs::path& path) {
  return path.extension() == ".npz" || path.extension() == ".h5" || path.extension() == ".hdf5";
}

void check_graph_input(const fs::path& file) {
  if (is_named_as_graphs(file)) return;
  throw UserError::of("{} is not named as a file of structures; the names end with {}", file.string(),
                      fmt::join(graph_endings, ", "));
}

// Parses what `parse` returns, and keeps what it throws with the name of the structure.
template <typename Parse>
void add_parsed(const std::string& name, int64_t number, ParsedPiece& parsed, const Parse& parse) {
  try {
    parsed.structures.push_back({number, parse()});
    for (const std::string& note : parsed.structures.back().structure.notes)
      add_notes({{note, {name, 1}}}, parsed.notes);
  } catch (const UserError& error) {
    parsed.problems.push_back(fmt::format("{}: {}", name, error.what()));
  }
}

void parse_frames(const GraphPiece& piece, const fs::path& file, ParsedPiece& parsed) {
  std::string_view rest = piece.text;
  int64_t number = piece.first_number;
  try {
    while (const size_t bytes = frame_bytes(rest, true)) {
      const std::string_view frame = rest.substr(0, bytes);
      rest.remove_prefix(bytes);
      add_parsed(structure_name(file, number), number, parsed, [&] { return parse_extended_xyz(frame); });
      ++number;
    }
  } catch (const UserError& error) {
    parsed.problems.push_back(fmt::format("{} {}", structure_name(file, number), error.what()));
  }
}

void parse_blocks(const GraphPiece& piece, const fs::path& file, ParsedPiece& parsed) {
  std::vector<CifBlock> blocks;
  try {
    blocks = parse_cif(piece.text);
    std::erase_if(blocks, [](const CifBlock& block) { return !has_sites(block); });
    if (blocks.empty()) throw UserError("has no block with atoms (_atom_site_fract_x)");
  } catch (const UserError& error) {
    parsed.problems.push_back(fmt::format("{}: {}", file.string(), error.what()));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    add_parsed(structure_name(file, number), number, parsed, [&] { return crystal_of(blocks[i]); });
  }
}

void parse_mesh(const GraphPiece& piece, const fs::path& file, ParsedPiece& parsed) {
  add_parsed(file.string(), 0, parsed,
             [&] { return file.extension() == ".msh" ? parse_gmsh(piece.text) : parse_vtk(piece.text); });
}

void add_point_sets(const GraphPiece& piece, const fs::path& file, ParsedPiece& parsed) {
  if (!piece.problem.empty()) parsed.problems.push_back(fmt::format("{}: {}", file.string(), piece.problem));
  for (int64_t number = piece.first_number; number < piece.end_number; ++number) {
    parsed.structures.push_back({number, piece.sets->structure(number)});
  }
}

std::shared_ptr<const PointSets> opened_point_sets(const fs::path& file) {
  return std::make_shared<const PointSets>(file.extension() == ".npz" ? npz_arrays(NpzArchive(file))
                                                                      : hdf5_arrays(file));
}

}  // namespace

std::vector<fs::path> find_graph_files(const std::vector<std::string>& inputs, const std::vector<fs::path>& excluded) {
  return find_named_files(inputs, excluded,
                          {.words = fmt::format("file of structures ({})", fmt::join(graph_endings, ", ")),
                           .is_named = is_named_as_graphs,
                           .check_input = check_graph_input});
}

void add_notes(const Notes& own, Notes& all) {
  for (const auto& [sentence, note] : own) {
    Note& sum = all[sentence];
    if (sum.structures == 0) sum.first = note.first;
    sum.structures += note.structures;
  }
}

std::vector<std::string> texts_of(const Notes& notes) {
  std::vector<std::string> texts;
  for (const auto& [sentence, note] : notes) {
    const std::string more = note.structures == 1 ? "" : fmt::format(", and {} more", note.structures - 1);
    texts.push_back(fmt::format("{}{}: {}", note.first, more, sentence));
  }
  return texts;
}

std::string structure_name(const fs::path& file, int64_t number) {
  return fmt::format("{}: structure {}", file.string(), number + 1);
}

// Reads more of the file. Returns false at the end of the file.
bool GraphPieces::read_more(size_t bytes) {
  const size_t had = text_.size();
  text_.resize(had + bytes);
  const size_t got = std::fread(text_.data() + had, 1, bytes, open_.get());
  text_.resize(had + got);
  if (std::ferror(open_.get()) != 0) {
    throw UserError::of("cannot read {}: {}", files_[at_].string(), std::strerror(errno));
  }
  return got == bytes;
}

GraphPiece GraphPieces::whole_file() {
  for (bool more = true; more;) more = read_more(piece_bytes);
  const uint64_t bytes = text_.size();
  return {.file = at_, .bytes = bytes, .text = std::exchange(text_, {})};
}

// Returns the next graphs of the file, as one piece.
GraphPiece GraphPieces::point_sets() {
  GraphPiece piece{.file = at_, .first_number = number_, .end_number = number_};
  try {
    if (sets_ == nullptr) sets_ = opened_point_sets(files_[at_]);
    for (int64_t nodes = 0; piece.end_number < sets_->graphs() && nodes < nodes_in_piece; ++piece.end_number) {
      nodes += sets_->nodes_of(piece.end_number);
    }
    piece.sets = sets_;
    number_ = piece.end_number;
    if (number_ < sets_->graphs()) return piece;
  } catch (const UserError& error) {
    piece.problem = error.what();
  }
  piece.bytes = fs::file_size(files_[at_]);
  sets_.reset();
  number_ = 0;
  ++at_;
  return piece;
}

// Returns the next frames; no value where the file has only blank lines left.
std::optional<GraphPiece> GraphPieces::frames() {
  bool is_all = !read_more(piece_bytes);
  size_t end = 0;
  int64_t count = 0;
  while (true) {
    try {
      while (const size_t bytes = frame_bytes(std::string_view(text_).substr(end), is_all)) {
        end += bytes;
        ++count;
      }
    } catch (const UserError&) {
      // parse_piece() says what is wrong behind the frames.
      is_all = true;
      end = text_.size();
    }
    if (end > 0 || is_all) break;
    is_all = !read_more(text_.size());
  }
  GraphPiece piece{.file = at_, .bytes = end, .text = text_.substr(0, end), .first_number = number_};
  number_ += count;
  text_.erase(0, end);
  if (is_all) {
    text_.clear();
    open_.reset();
    ++at_;
    number_ = 0;
  }
  return piece.text.empty() ? std::nullopt : std::optional(std::move(piece));
}

std::optional<GraphPiece> GraphPieces::next() {
  while (at_ < files_.size()) {
    if (has_point_sets(files_[at_])) return point_sets();
    if (open_ == nullptr) {
      open_.reset(std::fopen(files_[at_].c_str(), "rb"));
      if (open_ == nullptr) throw UserError::of("cannot open {}: {}", files_[at_].string(), std::strerror(errno));
    }
    if (!has_frames(files_[at_])) {
      GraphPiece piece = whole_file();
      open_.reset();
      ++at_;
      return piece;
    }
    if (std::optional<GraphPiece> piece = frames()) return piece;
  }
  return std::nullopt;
}

ParsedPiece parse_piece(const GraphPiece& piece, const std::vector<fs::path>& files) {
  const fs::path& file = files[piece.file];
  ParsedPiece parsed{.file = piece.file, .bytes = piece.bytes};
  if (has_frames(file)) {
    parse_frames(piece, file, parsed);
  } else if (has_point_sets(file)) {
    add_point_sets(piece, file, parsed);
  } else if (file.extension() == ".cif") {
    parse_blocks(piece, file, parsed);
  } else {
    parse_mesh(piece, file, parsed);
  }
  return parsed;
}

}  // namespace terrace::data
