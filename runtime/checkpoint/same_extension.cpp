#include "runtime/checkpoint/same_extension.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"

namespace troupe::runtime {
namespace {

std::string told(const std::string& name) {
  return name.empty() ? "no extension" : fmt::format("the extension '{}'", name);
}

}  // namespace

void require_extension(const checkpoint_manifest& of,
                       const extension& own,
                       const std::filesystem::path& folder) {
  const auto where = fmt::format("the identity in '{}'", folder.string());
  const auto identity = parse_json(of.identity, where);
  const bool extended = identity.is_object() && identity.contains("extension");
  const auto there = extended ? string_member(identity, "extension", where) : std::string();
  if (there != own.name)
    throw input_error(
        "cannot load '{}': its model was trained with {}, and this program has {}; load it with "
        "the program that trained it, or one that gives the same extension",
        folder.string(),
        told(there),
        told(own.name));
}

}  // namespace troupe::runtime
