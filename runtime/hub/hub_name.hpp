// Names of models on the Hugging Face Hub: "ORG/NAME" or "ORG/NAME@REVISION".

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

struct hub_name {
  std::string repository;         ///< "ORG/NAME"
  std::string revision = "main";  ///< a branch, a tag or a commit

  friend bool operator==(const hub_name&, const hub_name&) = default;
};

/// Empty if the text is not a Hub name; a path with one "/" may look like one.
std::optional<hub_name> parse_hub_name(std::string_view text);

/// True for the 40 hexadecimal digits of a commit; its files never change.
bool is_hub_commit(std::string_view revision);

std::string to_string(const hub_name& x);  ///< without "@main"

}  // namespace troupe::runtime
