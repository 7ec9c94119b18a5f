#include "actors/command/told.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace troupe::command {
namespace {

constexpr std::string_view name_characters
    = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

void add_flags_in(std::string_view text, std::set<std::string, std::less<>>& to) {
  for (auto at = text.find("--"); at != text.npos; at = text.find("--", at)) {
    const auto end = std::min(text.find_first_not_of(name_characters, at), text.size());
    to.emplace(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

std::vector<std::string> independent_of(const std::vector<std::string>& told,
                                        std::vector<std::string> more) {
  std::set<std::string, std::less<>> known;
  for (const auto& sentence : told)
    add_flags_in(sentence, known);
  std::erase_if(more, [&](const auto& sentence) {
    std::set<std::string, std::less<>> its;
    add_flags_in(sentence, its);
    return std::any_of(its.begin(), its.end(), [&](const auto& x) { return known.contains(x); });
  });
  return more;
}

}  // namespace troupe::command
