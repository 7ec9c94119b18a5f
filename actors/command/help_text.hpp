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

/// The page, at most 100 columns wide: name and purpose, then the sections that have entries, then
/// the notes.
std::string format_help(const std::string& name,
                        const std::string& about,
                        const std::vector<help_section>& sections,
                        const std::vector<std::string>& notes);

}  // namespace troupe::command
