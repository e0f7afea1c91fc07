// Writes the manual page in roff.
#include "cli/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/build_kind.h"
#include "cli/command_tree.h"
#include "cli/examples.h"
#include "cli/exit_codes.h"
#include "terrace/base/version.h"

namespace terrace::cli {
namespace {

// A line must not begin with a control character, and roff would print a plain '-' as a hyphen.
std::string roff_escaped(std::string_view text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      result += "\\(rs";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff_escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff_escaped(text) + "\\fR"; }

std::string synopsis(const Command& command) {
  std::string text = bold(join_path("terrace", command.path));
  if (!command.children.empty()) return text + " " + italic("command") + " ...";
  for (const Positional& positional : command.positionals) {
    const std::string name = italic(positional.name) + (positional.repeats ? " ..." : "");
    text += positional.required ? " " + name : " [" + name + "]";
  }
  return text + " [" + italic("options") + "]";
}

std::string item(const std::string& head, const std::string& body) { return ".TP\n" + head + "\n" + body + "\n"; }

std::string flag_item(const Flag& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back(bold(name));
  std::string head = fmt::format("{}", fmt::join(names, ", "));
  if (flag.takes_value) head += " " + italic("value");
  std::string about = roff_escaped(flag.about);
  // The configuration's keys are too many to be listed here.
  if (!flag.choices.empty() && !flag.choices.front().ends_with('=')) {
    about += roff_escaped(fmt::format(" ({})", fmt::join(flag.choices, ", ")));
  }
  if (!flag.default_value.empty()) about += roff_escaped(fmt::format(" [{}]", flag.default_value));
  return item(head, about);
}

std::string command_section(const Command& command) {
  std::string text = ".SS " + synopsis(command) + "\n" + roff_escaped(command.about) + "\n";
  for (const Positional& positional : command.positionals) {
    text += item(italic(positional.name), roff_escaped(positional.about));
  }
  for (const Flag& flag : command.flags) text += flag_item(flag);
  return text;
}

std::string example_section(const std::vector<Command>& commands) {
  std::string text = ".SH EXAMPLES\n";
  for (const Example& example : examples()) {
    if (find_command(commands, example.path) == nullptr) continue;
    text += ".PP\n" + roff_escaped(example.about) + ":\n.PP\n.EX\n  " + roff_escaped(example.line) + "\n.EE\n";
  }
  return text;
}

}  // namespace

std::string man_page(const std::vector<Command>& commands) {
  std::string text = fmt::format(".TH TERRACE 1 \"\" \"terrace {}\" \"User Commands\"\n", version());
  text += fmt::format(".SH NAME\nterrace \\- {}\n.SH SYNOPSIS\n", build_kind().summary);
  for (const Command& command : commands) {
    if (command.children.empty()) text += synopsis(command) + "\n.br\n";
  }
  text += ".SH DESCRIPTION\n" + roff_escaped(commands.front().about) + "\n";
  for (const Flag& flag : commands.front().flags) text += flag_item(flag);
  text += ".SH COMMANDS\n";
  for (const Command& command : commands) {
    if (command.children.empty()) text += command_section(command);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitMeaning& exit : exit_meanings) {
    text += item(bold(std::to_string(static_cast<int>(exit.code))), roff_escaped(exit.meaning));
  }
  return text + example_section(commands);
}

}  // namespace terrace::cli
