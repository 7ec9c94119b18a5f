#include "actors/command/help_text.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::command {
namespace {

constexpr std::size_t widest_words = 30;

}  // namespace

std::string wrapped(const std::string& text, std::size_t indent, std::size_t page) {
  std::istringstream in(text);
  std::string out, word;
  std::size_t column = indent;
  while (in >> word) {
    if (column > indent && column + 1 + word.size() > page) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string wrapped_lines(const std::string& text, std::size_t indent, std::size_t page) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);)
    out += (out.empty() ? "" : "\n" + std::string(indent, ' ')) + wrapped(line, indent, page);
  return out;
}

std::string format_list(const std::vector<std::string>& entries) {
  constexpr std::size_t page = 80, indent = 2;
  std::string out;
  std::size_t column = 0;
  for (const auto& entry : entries) {
    if (!out.empty() && column + entry.size() + 3 <= page) {
      out += ", ";
      column += 2;
    } else {
      out += (out.empty() ? "" : ",\n") + std::string(indent, ' ');
      column = indent;
    }
    out += entry;
    column += entry.size();
  }
  return out + "\n";
}

std::string format_help(const std::string& name,
                        const std::string& about,
                        const std::vector<help_section>& sections,
                        const std::vector<std::string>& notes,
                        const std::string& usage,
                        const std::vector<std::string>& beginnings) {
  std::string out = name + ": " + wrapped(about, name.size() + 2) + "\n";
  if (!usage.empty())
    out += wrapped("usage: " + usage, 0) + "\n";
  for (const auto& paragraph : beginnings)
    out += "\n" + wrapped(paragraph, 0) + "\n";
  for (const auto& section : sections) {
    if (section.entries.empty())
      continue;
    out += "\n";
    if (!section.title.empty())
      out += wrapped(section.title, 0) + "\n";
    std::size_t width = 0;
    for (const auto& entry : section.entries)
      width = std::max(width, std::min(entry.words.size(), widest_words));
    for (const auto& entry : section.entries) {
      out += "  " + entry.words;
      if (entry.words.size() > width)
        out += "\n" + std::string(width + 4, ' ');
      else
        out += std::string(width + 2 - entry.words.size(), ' ');
      out += wrapped_lines(entry.help, width + 4) + "\n";
    }
  }
  for (const auto& note : notes)
    out += "\n" + wrapped(note, 0) + "\n";
  return out;
}

}  // namespace troupe::command
