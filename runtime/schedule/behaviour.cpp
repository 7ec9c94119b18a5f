#include "runtime/schedule/behaviour.hpp"

#include "runtime/core/error.hpp"

#include <map>

namespace troupe::runtime {
namespace {

/// By name; what was registered stays where it is.
std::map<std::string, behaviour_factory>& registry() {
  static std::map<std::string, behaviour_factory> all;
  return all;
}

}  // namespace

void register_behaviour(behaviour_factory how) {
  if (how.name.empty() || how.name.find_first_of("./") != std::string::npos)
    throw input_error(
        "a behaviour is registered as '{}': a name has no dot and no slash, which are for files",
        how.name);
  if (!how.make)
    throw input_error("the behaviour '{}' is registered without what makes it", how.name);
  if (registry().contains(how.name))
    throw input_error("there are two behaviours named '{}'", how.name);
  registry().emplace(how.name, how);
}

const behaviour_factory* find_behaviour(const std::string& name) {
  const auto found = registry().find(name);
  return found == registry().end() ? nullptr : &found->second;
}

std::vector<std::string> registered_behaviours() {
  std::vector<std::string> out;
  for (const auto& [name, how] : registry())
    out.push_back(name);
  return out;
}

}  // namespace troupe::runtime
