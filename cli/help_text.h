// Sets the text of --help to the width of a terminal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <string>

namespace terrace::cli {

// `help` as CLI11 makes it, with no line wider than `width` columns where its words allow: the rows of tables continue
// below their descriptions, sentences are joined and divided again, and commands continue on a line behind a backslash,
// so that they can be copied. Lines that fit stay as they are.
std::string wrapped_help(const std::string& help, size_t width);

// Columns of the terminal on standard output, where the variable COLUMNS of the environment does not say another
// number; 0 where standard output is no terminal.
size_t output_columns();

// Makes CLI11's text and wraps it to `width` columns; 0 leaves it.
std::shared_ptr<CLI::FormatterBase> help_formatter(size_t width);

}  // namespace terrace::cli
