#include "runtime/state/merged_digests.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

/// Two copies on one rank must be equal.
void add_copies(std::map<std::string, digest>& to, const std::map<std::string, digest>& more) {
  for (const auto& [name, found] : more)
    if (to.emplace(name, found).first->second != found)
      throw copies_differ(name);
}

}  // namespace

void merge_digests(state_digests& to, state_digests of_chunk, bool answers) {
  if (answers)
    to.own.merge(of_chunk.own);
  else
    add_copies(to.copies, of_chunk.own);
  add_copies(to.copies, of_chunk.copies);
}

copies_differ::copies_differ(std::string parameter)
    : broken_promise("STEP-6: what several tensor ranks or stages hold, they hold alike; but not "
                     + parameter),
      parameter_(std::move(parameter)) {}

}  // namespace troupe::runtime
