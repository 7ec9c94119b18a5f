// Members of JSON objects that others wrote: files of a run's folder, messages of an agent.

#pragma once

#include "runtime/process/process_end.hpp"
#include "runtime/process/process_id.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// The object that a text is. `what` begins the message when it is refused. Throws input_error for
/// what is no JSON object, or nested too deep.
nlohmann::json read_object(std::string_view text, const std::string& what);

/// A member. Each throws input_error, with `what` and its name, when it is missing, of another type
/// or out of range.
std::string text_field(const nlohmann::json& of, const char* name, const std::string& what);
std::int64_t whole_field(const nlohmann::json& of,
                         const char* name,
                         const std::string& what,
                         std::int64_t least,
                         std::int64_t most = INT64_MAX);
double number_field(
    const nlohmann::json& of, const char* name, const std::string& what, double above, double most);
bool flag_field(const nlohmann::json& of, const char* name, const std::string& what);
std::vector<std::string> texts_field(const nlohmann::json& of,
                                     const char* name,
                                     const std::string& what);
/// The same as text_or_bytes writes it.
std::string word_field(const nlohmann::json& of, const char* name, const std::string& what);
std::vector<std::string> words_field(const nlohmann::json& of,
                                     const char* name,
                                     const std::string& what);
const nlohmann::json& object_field(const nlohmann::json& of,
                                   const char* name,
                                   const std::string& what);
const nlohmann::json& list_field(const nlohmann::json& of,
                                 const char* name,
                                 const std::string& what);

/// {"pid": 12, "start_time": 3456}, among others.
void put(nlohmann::json& to, const process_id& x);
process_id process_field(const nlohmann::json& of, const std::string& what);

/// {"exit_code": 0}, {"signal": 9, "core": false, "out_of_memory": false}, or {"unseen": true}.
nlohmann::json json_of(const process_end& x);
process_end read_process_end(const nlohmann::json& x, const std::string& what);

/// The text of a value; strings that are not UTF-8 are refused as input_error.
std::string text_of_json(const nlohmann::json& x, const std::string& what);

}  // namespace troupe::runtime
