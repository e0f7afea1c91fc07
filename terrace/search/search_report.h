// Reports what a search found: a table or JSON of the best trials, and their configurations as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/search/search.h"

namespace terrace::search {

// Writes best_1.toml, best_2.toml .. into the folder, the configurations of the best trials for `terrace train`, and
// removes those of an earlier search beyond them; none if the study has no configuration. If the study's configuration
// is complete for a planner only, the files are too, and a warning says so.
std::vector<std::filesystem::path> write_best(const Study& study, const std::vector<Trial>& best,
                                              const std::filesystem::path& folder);

// Writes tied.csv into the folder, with the rows that results.csv has of the trials that are tied with the best one
// (tied_with_best()); removes it if there are none.
void write_ties(const Study& study, const SearchResult& result, const std::filesystem::path& folder);

// "17 trials: 12 done, 5 failed (4 F_oom, 1 F_layout)" with why the search ended, and a line for each of the best, with
// the interval of the goal where predictions have one, and for those that are tied with the best one, of which at most
// ten have a line beyond the number of `best`.
std::string text_of(const Study& study, const SearchResult& result, const std::vector<Trial>& best);
// The keys that docs/search.md lists.
Json json_of(const Study& study, const SearchResult& result, const std::vector<Trial>& best,
             const std::vector<std::filesystem::path>& files);

// The best trials as lines: their goals, with intervals where asked for and known, their numbers and their parameters.
std::string table_of(const Study& study, const std::vector<Trial>& best, bool shows_intervals = false);
// "step_seconds 1.2 s, memory_bytes 3 GiB": what the trial reached.
std::string shown_goals(const Study& study, const Trial& trial);

// Why no trial has an objective: the reason that most trials have.
std::string failure_of_all(const SearchResult& result);

// "1.23 s", "38.5%": the figure with this name, for people.
std::string shown_figure(const std::string& name, double value);

// Columns as wide as their widest cell, the last one as wide as it is. All rows have as many cells.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace terrace::search
