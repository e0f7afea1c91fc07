// Finds files of structures and reads them in pieces, so that several threads can parse one large file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/data/graphs/formats/point_sets.h"
#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Files are taken as they are given; folders are searched for files of these names, sorted, without names that begin
// with a dot: .xyz and .extxyz (extended XYZ), .cif, .msh (Gmsh), .vtk, .npz, .h5 and .hdf5 (point sets). Throws
// UserError for a path that does not exist, that is an `excluded` file or has another name, for a file that is given
// twice, and where there is none.
std::vector<std::filesystem::path> find_graph_files(const std::vector<std::string>& inputs,
                                                    const std::vector<std::filesystem::path>& excluded);

// A part of a file that is parsed at once.
struct GraphPiece {
  size_t file = 0;           // in the list of files
  uint64_t bytes = 0;        // of the file
  std::string text = {};     // whole frames of extended XYZ, or the whole file
  int64_t first_number = 0;  // of its first structure in the file, from 0
  // The graphs of the file, for point sets in place of text, and the number behind the last graph of the piece.
  std::shared_ptr<const PointSets> sets = {};
  int64_t end_number = 0;
  std::string problem = {};  // why the file has no point sets
};

struct NumberedStructure {
  int64_t number = 0;  // in its file, from 0
  Structure structure = {};
};

// Sentences about structures, each with the name of the first structure that has it and the number of those that do.
struct Note {
  std::string first = {};
  int64_t structures = 0;
};
using Notes = std::map<std::string, Note>;
void add_notes(const Notes& own, Notes& all);
// Returns a sentence for each note: "runs.xyz: structure 3, and 4 more: ..".
std::vector<std::string> texts_of(const Notes& notes);

struct ParsedPiece {
  size_t file = 0;
  uint64_t bytes = 0;  // of the file
  std::vector<NumberedStructure> structures = {};
  std::vector<std::string> problems = {};  // with file and structure
  // Notes on what was left out or taken for something (Structure::notes): the first such structure, and how many there
  // are.
  Notes notes = {};
};

// Reads files one after another, about a MiB at a time.
class GraphPieces {
 public:
  explicit GraphPieces(const std::vector<std::filesystem::path>& files) : files_(files) {}
  // Returns the next piece; no value behind the last file. Throws UserError where a file cannot be read. A frame that
  // the file ends within is in the last piece of the file.
  std::optional<GraphPiece> next();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  bool read_more(size_t bytes);
  GraphPiece whole_file();
  GraphPiece point_sets();
  std::optional<GraphPiece> frames();

  const std::vector<std::filesystem::path>& files_;
  size_t at_ = 0;
  std::unique_ptr<std::FILE, Close> open_;
  std::shared_ptr<const PointSets> sets_;  // of the file that is open
  std::string text_;                       // read and not yet given out
  int64_t number_ = 0;
};

// Returns a name for messages: "runs.xyz: structure 3"; `number` counts from 0.
std::string structure_name(const std::filesystem::path& file, int64_t number);

// Parses all structures of a piece. A problem ends the structure, and where the next one's place is unknown the piece.
ParsedPiece parse_piece(const GraphPiece& piece, const std::vector<std::filesystem::path>& files);

}  // namespace terrace::data
