// Formats help pages.

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

/// Wraps the text at spaces before column `page`. The text begins in column `indent`, as do the
/// following lines.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t page = 80);

/// Wraps each line of the text.
std::string wrapped_lines(const std::string& text, std::size_t indent, std::size_t page = 80);

/// The entries with commas between them, in indented lines of at most 80 columns; entries are not
/// broken.
std::string format_list(const std::vector<std::string>& entries);

/// A page of at most 80 columns: name and purpose, usage (if not empty), beginnings, the sections
/// that have entries, and notes.
std::string format_help(const std::string& name,
                        const std::string& about,
                        const std::vector<help_section>& sections,
                        const std::vector<std::string>& notes,
                        const std::string& usage = "",
                        const std::vector<std::string>& beginnings = {});

}  // namespace troupe::command
