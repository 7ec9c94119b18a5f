// Reads the fields of a JSON object of a request. Throws `refusal` with status 400, which names the
// field, for a wrong type or range.

#pragma once

#include "runtime/serving/refusal.hpp"

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime::serving {

using json = nlohmann::ordered_json;

/// Parses a body. Throws `refusal` if it is not a JSON object of at most 64 levels.
json parsed_body(std::string_view body);

/// A field that is null counts as missing. The object must outlive this reader.
class request_fields {
 public:
  /// `within`: the path of the object in the request, such as "stream_options"; empty: the request.
  explicit request_fields(const json& of, std::string within = {});

  const json* any(const char* name);  ///< null if it is missing
  std::optional<bool> flag(const char* name);
  std::optional<std::int64_t> whole(const char* name, std::int64_t least, std::int64_t most);
  std::optional<double> real(const char* name, double least, double most);
  std::optional<std::string> text(const char* name);
  /// Whole numbers from 0 to `most`.
  std::optional<std::vector<std::int32_t>> ids(const char* name, std::int64_t most);

  /// Fields without an effect here.
  void ignore(std::initializer_list<const char*> names);
  /// Refuses the field, unless it has this value or is missing.
  void require(const char* name, const json& value, const char* why);
  /// Throws for a field that was never read or ignored.
  void finish() const;

  [[noreturn]] void refuse(const char* name, const std::string& why) const;

 private:
  std::string path_of(const std::string& name) const;

  const json& of_;
  std::string within_;
  std::set<std::string, std::less<>> known_;
};

/// The ids of a JSON array of whole numbers from 0 to `most`; nothing if it is another value.
std::optional<std::vector<std::int32_t>> ids_in(const json& value, std::int64_t most);

}  // namespace troupe::runtime::serving
