#include "actors/command/megatron/table.hpp"

#include <sstream>
#include <string_view>

namespace troupe::command::megatron {
namespace {

std::string note_of(std::string_view reason, std::string_view instead) {
  const bool both = !reason.empty() && !instead.empty();
  return std::string(reason) + (both ? "; " : "") + std::string(instead);
}

}  // namespace

const char* name_of(standing what) {
  switch (what) {
    case standing::works:
      return "works";
    case standing::accepted:
      return "accepted";
    case standing::coming:
      return "coming";
    case standing::refused:
      return "refused";
  }
  return "";
}

std::vector<flag_name> names_in(const flag_row& row) {
  std::istringstream words(row.names);
  std::vector<flag_name> out;
  for (std::string word; words >> word;)
    if (word.starts_with("--"))
      out.push_back({word});
    else
      ++out.back().words;
  return out;
}

#define SECTION(title) out.push_back({title, {}});
#define FLAGS(what, reason, instead, names) \
  out.back().rows.push_back({standing::what, note_of(reason, instead), names});
#define FAMILY(what, reason, instead, beginnings)

std::vector<flag_section> sections() {
  std::vector<flag_section> out;
#include "actors/command/megatron/flags.inc"
  return out;
}

#undef SECTION
#undef FLAGS
#undef FAMILY
#define SECTION(title)
#define FLAGS(what, reason, instead, names)
#define FAMILY(what, reason, instead, beginnings) \
  out.push_back({standing::what, note_of(reason, instead), beginnings});

std::vector<flag_row> families() {
  std::vector<flag_row> out;
#include "actors/command/megatron/flags.inc"
  return out;
}

}  // namespace troupe::command::megatron
