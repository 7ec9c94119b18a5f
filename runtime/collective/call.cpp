#include "runtime/collective/call.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace troupe::runtime {

std::string disagreement(
    axis_set along, int rank_a, const collective_call& a, int rank_b, const collective_call& b) {
  const bool cut_alike = b.cuts_are_own || std::ranges::equal(a.ends, b.ends);
  if (std::string_view(a.what) == b.what && a.elements == b.elements && a.detail == b.detail
      && a.parts == b.parts && cut_alike)
    return "";
  return fmt::format(
      "COLLECTIVE-1: along {} rank {} calls {} with {} elements in {} parts (dtype or root {}), "
      "rank {} calls {} with {} in {} ({}){}",
      short_name(along),
      rank_a,
      a.what,
      a.elements,
      a.parts,
      a.detail,
      rank_b,
      b.what,
      b.elements,
      b.parts,
      b.detail,
      cut_alike ? "" : ", with other ends");
}

}  // namespace troupe::runtime
