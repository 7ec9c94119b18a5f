// How a help page looks.

#pragma once

#include <string>
#include <vector>

namespace troupe::command {

struct help_entry {
  std::string words;  ///< "--num-layers N"
  std::string help;
};

struct help_section {
  std::string title;
  std::vector<help_entry> entries;
};

/// The text, broken at spaces before column `page`, continued in column `indent`, where it begins.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t page = 80);

/// The same of each line of the text.
std::string wrapped_lines(const std::string& text, std::size_t indent, std::size_t page = 80);

/// Lines of at most 80 columns of what is never broken itself, with commas between them; indented.
std::string format_list(const std::vector<std::string>& entries);

/// The page, at most 80 columns wide: name and purpose, how it is called (empty: not said), then
/// the sections that have entries, then the notes.
std::string format_help(const std::string& name,
                        const std::string& about,
                        const std::vector<help_section>& sections,
                        const std::vector<std::string>& notes,
                        const std::string& usage = "",
                        const std::vector<std::string>& beginnings = {});

}  // namespace troupe::command
