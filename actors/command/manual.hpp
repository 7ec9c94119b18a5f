// Manual pages, one a command, made from the description of the commands.

#pragma once

#include "actors/command/command_description.hpp"

#include <map>
#include <string>

namespace troupe::command {

/// File name to contents, e.g. "troupe-train-gpt.1": pages for man(1), in roff with the macros of
/// man(7). `version` stands in their foot. Lines of a roff page have no time of making, so that the
/// same program writes the same pages.
std::map<std::string, std::string> manual_pages(const command_description& program,
                                                const std::string& version);

/// All of it as one Markdown text.
std::string markdown_manual(const command_description& program);

}  // namespace troupe::command
