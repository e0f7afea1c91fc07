// Lets ranks parse and check their files by several threads; then the first rank writes the structures of all in order.
#include "terrace/data/graphs/prepare_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/file_parts.h"
#include "terrace/data/graphs/dataset/graph_files.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/dataset/graphs_description.h"
#include "terrace/data/graphs/dataset/graphs_summary.h"
#include "terrace/data/graphs/dataset/graphs_writer.h"
#include "terrace/data/graphs/formats/text_numbers.h"
#include "terrace/data/graphs/structures/declared_units.h"
#include "terrace/data/graphs/structures/quantities.h"
#include "terrace/data/graphs/structures/structure_problems.h"
#include "terrace/data/graphs/structures/structure_records.h"
#include "terrace/data/ordered_map.h"
#include "terrace/data/preparation_run.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_problems = 100;  // after which reading ends

struct GraphsFlags {
  StructureRules rules = {};
  GraphSplit split = {};
  std::map<std::string, std::string> units = {};
  // The units of energies, forces, stresses, virials and lengths, which are converted.
  std::map<std::string, std::string> converted = {};
};

std::array<double, 3> shares_of(const std::vector<std::string>& words) {
  std::array<double, 3> shares = {};
  double sum = 0;
  bool is_right = words.size() == 2 || words.size() == 3;
  for (size_t i = 0; i < words.size() && is_right; ++i) {
    const std::optional<double> share = number_of(words[i]);
    is_right = share && *share >= 0 && *share <= 1;
    if (is_right) sum += shares[i] = *share;
  }
  if (!is_right || std::abs(sum - 1) > 1e-9 || shares[0] == 0) {
    throw UserError::of(
        "--split {} is not the shares of training, validation and test, whose sum is 1; give shares such as "
        "0.8,0.1,0.1",
        fmt::join(words, ","));
  }
  return shares;
}

SplitBy split_by_of(const std::string& word) {
  if (word == "composition") return SplitBy::composition;
  if (word == "source") return SplitBy::source;
  if (word == "structure") return SplitBy::structure;
  if (word == "geometry") return SplitBy::geometry;
  throw UserError::of(
      "--split-by {}; give composition (structures of one formula stay together), source (those of one "
      "file), geometry (those of equal elements, positions, cell and edges) or structure (those with equal properties "
      "too)",
      word);
}

std::map<std::string, std::string> units_of_properties(const std::vector<std::string>& words) {
  std::map<std::string, std::string> units;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      throw UserError::of("--units {} is no PROPERTY=UNITS, such as energy=eV", word);
    }
    units[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return units;
}

// Takes the unit of a property. Throws UserError for an unknown unit of what is converted.
void take_unit(const std::string& name, const std::string& unit, GraphsFlags& flags) {
  const bool is_length = property_of_unit_key(name + "-unit") == "length";
  const PhysicalQuantity quantity = is_length ? PhysicalQuantity::length : quantity_of(name);
  if (quantity == PhysicalQuantity::other) {
    flags.units[name] = unit;
    return;
  }
  checked_standard_units_in("--units: " + name, quantity, unit);
  flags.converted[is_length ? "length" : name] = unit;
  if (!is_length) flags.units[name] = standard_unit(quantity);
}

GraphsFlags graph_flags_of(const PrepareRequest& request) {
  const auto values = [&](const char* flag) {
    const auto found = request.flags.find(flag);
    return found == request.flags.end() ? std::vector<std::string>{} : found->second;
  };
  GraphsFlags flags;
  flags.rules.labels = values("labels");
  for (const auto& [name, unit] : units_of_properties(values("units"))) take_unit(name, unit, flags);
  if (const auto words = values("least-distance"); !words.empty()) {
    const std::optional<double> distance = number_of(words[0]);
    if (!distance || !(*distance >= 0) || !(*distance <= 10)) {
      throw UserError::of("--least-distance {}; give a distance in angstrom from 0 (not checked) to 10", words[0]);
    }
    flags.rules.least_distance = *distance;
  }
  if (const auto words = values("split"); !words.empty()) flags.split.shares = shares_of(words);
  if (const auto words = values("split-by"); !words.empty()) flags.split.by = split_by_of(words[0]);
  if (const auto words = values("seed"); !words.empty()) {
    const std::optional<int64_t> seed = whole_number_of(words[0]);
    if (!seed || *seed < 0) throw UserError::of("--seed {}; give a whole number from 0", words[0]);
    flags.split.seed = static_cast<uint64_t>(*seed);
  }
  if (!request.flags.contains("split") && (request.flags.contains("seed") || request.flags.contains("split-by"))) {
    throw UserError("--seed and --split-by say how --split draws its parts; give it too, such as --split 0.8,0.1,0.1");
  }
  return flags;
}

std::string graphs_prefix(const std::string& output) { return prefix_of_output(output, ".bin", "data/molecules"); }

// Runs one preparation, step by step.
class GraphsRun {
 public:
  GraphsRun(const PrepareRequest& request, PreparationRun& run, std::string prefix, GraphsFlags flags,
            double seconds_between_records)
      : request_(request),
        run_(run),
        ranks_(run.ranks()),
        prefix_(std::move(prefix)),
        flags_(std::move(flags)),
        parts_(ranks_, prefix_, {"structures"}, seconds_between_records) {
    run_.writes(prefix_ + ".bin and .json; --resume continues behind the input files that were finished");
  }

  PrepareResult run() {
    PrepareResult result;
    run_.make_of_parts(parts_, {.begin = [&] { begin(); },
                                .join = [&] { join_graphs(); },
                                .work = [&] { parse_own(); },
                                .finish = [&] { run_.on_first([&] { result = make_dataset(); }); }});
    return result;
  }

 private:
  // Begins on the first rank.
  void begin() {
    if (const fs::path folder = fs::path(prefix_).parent_path(); !folder.empty()) fs::create_directories(folder);
    for (const fs::path& path : {graphs_path(prefix_), graphs_description_path(prefix_)}) {
      remove_abandoned_partials(path);
    }
    files_ = find_graph_files(request_.inputs, {graphs_path(prefix_), graphs_description_path(prefix_)});
    file_.emplace(graphs_path(prefix_));  // before the parts, so that no other preparation of this prefix touches them
    std::vector<PartInput> inputs;
    for (const fs::path& file : files_) inputs.push_back(part_input(file));
    std::string identity =
        fmt::format("structures 2 {} {}", flags_.rules.least_distance, fmt::join(flags_.rules.labels, ","));
    for (const auto& [name, unit] : flags_.converted) identity += fmt::format(" {}={}", name, unit);
    parts_.begin({.identity = identity, .inputs = std::move(inputs)}, request_.flags.contains("resume"));
  }

  void join_graphs() {
    for (const PartInput& input : parts_.plan().inputs) files_.push_back(input.path);
  }

  // Appends each structure of this rank's input files, as bytes, to the rank's parts.
  void parse_own() {
    std::vector<fs::path> own;
    uint64_t done = 0;
    for (const size_t input : parts_.own()) own.push_back(files_[input]);
    Progress progress("reading structures", parts_.bytes_kept() + parts_.bytes_left(), parts_.bytes_kept());
    GraphPieces pieces(own);
    std::vector<std::string> problems;
    Notes notes;
    size_t file = 0;         // the file that is being read
    int64_t structures = 0;  // of the file, with those that cannot be taken
    const auto finish_before = [&](size_t next) {
      for (; file < next; ++file, structures = 0) {
        if (structures == 0) problems.push_back(own[file].string() + " has no structure");
        parts_.finish_file(parts_.own()[file], "");
      }
    };
    std::vector<std::byte> record;
    ordered_map<GraphPiece, ParsedPiece>(
        static_cast<int>(run_.threads()),
        [&]() -> std::optional<GraphPiece> {
          if (problems.size() >= most_problems || parts_.is_stopped()) return std::nullopt;
          return pieces.next();
        },
        [&] {
          return std::function<ParsedPiece(GraphPiece&)>(
              [&](GraphPiece& piece) { return parse_and_check(piece, own); });
        },
        [&](ParsedPiece& parsed) {
          run_.check_stop();
          finish_before(parsed.file);
          problems.insert(problems.end(), parsed.problems.begin(), parsed.problems.end());
          add_notes(parsed.notes, notes);
          structures += std::ssize(parsed.structures) + std::ssize(parsed.problems);
          for (const NumberedStructure& one : parsed.structures) {
            record.clear();
            append_structure(one, record);
            parts_.append(0, record);
          }
          done += parsed.bytes;
          if (ranks_.is_first()) progress.update(parts_.bytes_done(done), own[parsed.file].filename().string());
        });
    progress.clear();
    if (parts_.is_stopped()) return;
    if (problems.size() < most_problems) finish_before(own.size());
    throw_problems(problems, "structures and files that cannot be taken");
    for (const std::string& note : texts_of(notes)) log_warning("{}", note);
    parts_.record();
  }

  ParsedPiece parse_and_check(const GraphPiece& piece, const std::vector<fs::path>& files) const {
    ParsedPiece parsed = parse_piece(piece, files);
    convert_units(parsed, files[piece.file]);
    std::erase_if(parsed.structures, [&](const NumberedStructure& one) {
      const std::string name = structure_name(files[piece.file], one.number);
      const std::vector<std::string> problems = problems_of(one.structure, flags_.rules);
      if (has_stress_without_volume(one.structure)) {
        add_notes({{"has a stress or virial and a cell without a volume, so that it is not trained on", {name, 1}}},
                  parsed.notes);
      }
      for (const std::string& problem : problems) {
        parsed.problems.push_back(fmt::format("{}: {}", name, problem));
      }
      return !problems.empty();
    });
    return parsed;
  }

  // Converts values by --units, which the units that a file declares itself may not contradict.
  void convert_units(ParsedPiece& parsed, const fs::path& file) const {
    if (flags_.units.empty() && flags_.converted.empty()) return;
    std::erase_if(parsed.structures, [&](NumberedStructure& one) {
      try {
        std::map<std::string, std::string> own = flags_.converted;
        for (const auto& [name, unit] : one.structure.units) {
          const PhysicalQuantity quantity = name == "length" ? PhysicalQuantity::length : quantity_of(name);
          const auto& flags = quantity == PhysicalQuantity::other ? flags_.units : flags_.converted;
          const auto flag = flags.find(name);
          if (flag == flags.end()) continue;
          const bool is_same = quantity == PhysicalQuantity::other
                                   ? flag->second == unit
                                   : standard_units_in(quantity, flag->second) == standard_units_in(quantity, unit);
          if (!is_same) {
            throw UserError::of("the file says that {} is in {}, and --units that it is in {}", name, unit,
                                flag->second);
          }
          own.erase(name);
        }
        std::erase_if(own, [&](const auto& unit) {
          return unit.first != "length" && !one.structure.of_structure.contains(unit.first) &&
                 !one.structure.of_atoms.contains(unit.first);
        });
        convert_declared_units(own, one.structure);
        return false;
      } catch (const UserError& error) {
        parsed.problems.push_back(fmt::format("{}: {}", structure_name(file, one.number), error.what()));
        return true;
      }
    });
  }

  static bool has_stress_without_volume(const Structure& structure) {
    return volume_of(structure.cell) == 0 && std::ranges::any_of(structure.of_structure, [](const auto& property) {
             const PhysicalQuantity quantity = quantity_of(property.first);
             return quantity == PhysicalQuantity::stress || quantity == PhysicalQuantity::virial;
           });
  }

  // Makes the dataset of the parts of all ranks, on the first rank.
  PrepareResult make_dataset() {
    GraphsWriter writer(fs::path(prefix_).parent_path(), flags_.split);
    DeclaredUnits units;
    join_parts(writer, units);
    check_units(writer);
    const GraphsDescription description = finish(writer, units, *file_);
    run_.commit(*file_, graphs_description_path(prefix_), description.text());
    PrepareResult result = summary_of_graphs(description, prefix_);
    result.text += fmt::format("wrote {0}.bin and {0}.json", prefix_);
    return result;
  }

  void join_parts(GraphsWriter& writer, DeclaredUnits& units) {
    const std::vector<FilePart> all = parts_.collect();
    Progress progress("joining the parts", all.size());
    std::vector<std::string> problems;
    for (size_t input = 0; input < all.size(); ++input) {
      run_.check_stop();
      progress.update(input, files_[input].filename().string());
      StructureRecords records(parts_.folder() / all[input].ranges[0].file, all[input].ranges[0]);
      const bool is_in_angstrom = files_[input].extension() == ".cif";
      while (const std::optional<NumberedStructure> one = records.next()) {
        const std::string place = structure_name(files_[input], one->number);
        if (const std::string differs = units.add(one->structure, place, is_in_angstrom); !differs.empty()) {
          problems.push_back(fmt::format("{}: {}", place, differs));
          break;
        }
        const std::string problem = writer.add(one->structure, static_cast<int32_t>(input), one->number);
        if (problem.empty()) continue;
        problems.push_back(place + " " + problem);
        break;
      }
    }
    progress.clear();
    throw_problems(problems, "structures and files that cannot be taken");
  }

  // A unit of a property that is not there is a slip of the pen.
  void check_units(const GraphsWriter& writer) const {
    const std::vector<std::string> names = writer.property_names();
    for (const auto& [name, units] : flags_.units) {
      if (std::ranges::find(names, name) != names.end()) continue;
      throw UserError::of("--units {}={}: there is no property {}; there are: {}", name, units, name,
                          names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", ")));
    }
    for (const std::string& label : flags_.rules.labels) {
      if (writer.all_have(label)) continue;
      throw UserError::of("--labels {}: its level or its number of columns differs between structures", label);
    }
    for (const std::string& sentence : writer.remarks()) log_warning("{}", sentence);
  }

  GraphsDescription finish(GraphsWriter& writer, const DeclaredUnits& units, AtomicFile& file) {
    std::map<std::string, std::string> noted = flags_.units;
    for (const auto& [name, unit] : units.of_others()) noted.try_emplace(name, unit);
    Progress progress("writing", writer.bytes());
    std::vector<std::string> sources;
    for (const fs::path& path : files_) sources.push_back(path.string());
    return writer.finish(file, std::move(sources), noted, [&](uint64_t done) {
      run_.check_stop();
      progress.update(done);
    });
  }

  const PrepareRequest& request_;
  PreparationRun& run_;
  PrepareRanks& ranks_;
  std::string prefix_;
  GraphsFlags flags_;
  FileParts parts_;
  std::vector<fs::path> files_ = {};
  std::optional<AtomicFile> file_ = {};  // of the first rank
};

}  // namespace

std::vector<PrepareFlag> GraphsPreparation::flags() const {
  return {
      {.name = "labels",
       .about = "Properties that every structure has to have, such as energy,forces (default: none)",
       .is_list = true},
      {.name = "split",
       .about = "Shares of training, validation and test, such as 0.8,0.1,0.1 (default: all for training)",
       .is_list = true},
      {.name = "seed", .about = "Draws the parts of --split (default: 1)"},
      {.name = "split-by",
       .about = "What stays in one part: structures of one composition, of one source (file), of one geometry "
                "(elements, positions, cell, edges), or only those that are equal in all properties too (structure; "
                "default: structure)"},
      {.name = "units",
       .about = "PROPERTY=UNITS: energies, forces, stresses, virials and lengths become eV and angstrom, such as "
                "energy=hartree; those of others are noted (default: none)",
       .is_list = true},
      {.name = "least-distance",
       .about = "Refuse structures with atoms nearer than so many angstrom; 0: do not look (default: 0.5)"},
      {.name = "resume", .about = "Continue a preparation that was killed, where there is one", .is_switch = true}};
}

PrepareResult GraphsPreparation::prepare(const PrepareRequest& request) const {
  PreparationRun run(request.ranks, request.threads, request.stop);
  std::string prefix;
  GraphsFlags flags;
  on_all_ranks(run.ranks(), [&] {
    prefix = graphs_prefix(request.output);
    if (!request.overwrite && run.ranks().is_first()) {
      check_absent({graphs_path(prefix), graphs_description_path(prefix)});
    }
    flags = graph_flags_of(request);
  });
  return GraphsRun(request, run, prefix, flags, seconds_between_records_).run();
}

bool GraphsPreparation::has_made(const std::string& prefix) const {
  return describes_graphs(graphs_description_path(graphs_prefix(prefix)));
}

PrepareResult GraphsPreparation::inspect(const std::string& prefix) const {
  const GraphsDataset dataset(graphs_prefix(prefix));
  dataset.check();
  PrepareResult result = summary_of_graphs(dataset.description(), dataset.prefix());
  result.text += "all checksums are right";
  return result;
}

}  // namespace terrace::data
