#include "runtime/hub/hub_name.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe::runtime {
namespace {

constexpr std::size_t longest_part = 96;  // characters; the Hub's limit of a repository

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// The Hub's rule for an organisation and for a name.
bool is_part(std::string_view text) {
  return !text.empty() && text.size() <= longest_part && is_letter_or_digit(text.front())
         && is_letter_or_digit(text.back()) && text.find("--") == std::string_view::npos
         && text.find("..") == std::string_view::npos && std::ranges::all_of(text, [](char c) {
              return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
            });
}

/// A branch or tag of git as far as it fits into a path: "refs/pr/1" does, "../x" does not.
bool is_revision(std::string_view text) {
  return !text.empty() && text.size() <= 256 && is_letter_or_digit(text.front())
         && text.back() != '/' && text.find("..") == std::string_view::npos
         && text.find("//") == std::string_view::npos && std::ranges::all_of(text, [](char c) {
              return is_letter_or_digit(c)
                     || std::string_view("-_./+").find(c) != std::string_view::npos;
            });
}

}  // namespace

std::optional<hub_name> parse_hub_name(std::string_view text) {
  const auto at = text.find('@');
  const auto repository = text.substr(0, at);
  const auto slash = repository.find('/');
  if (slash == std::string_view::npos || !is_part(repository.substr(0, slash))
      || !is_part(repository.substr(slash + 1)))
    return std::nullopt;
  hub_name out{.repository = std::string(repository)};
  if (at == std::string_view::npos)
    return out;
  const auto revision = text.substr(at + 1);
  if (!is_revision(revision))
    return std::nullopt;
  out.revision = revision;
  return out;
}

bool is_hub_commit(std::string_view revision) {
  return revision.size() == 40 && std::ranges::all_of(revision, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string to_string(const hub_name& x) {
  return x.revision == hub_name().revision ? x.repository : x.repository + '@' + x.revision;
}

}  // namespace troupe::runtime
